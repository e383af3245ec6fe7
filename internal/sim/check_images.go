package sim

import (
	"crypto/sha256"
	"encoding/hex"

	"moldau/internal/kafka"
)

// images is what nodes made of the metadata log, by the offset that they had come to.
type images struct {
	sums map[kafka.Offset][sha256.Size]byte
	by   map[kafka.Offset]string // the node that was there first
	last map[*life]kafka.Offset
}

// checkImages: nodes that have read the metadata log up to one offset know the same.
func (c *course) checkImages() {
	for _, h := range c.hosts {
		if !h.serves() {
			continue
		}
		image := h.life.node.Image()
		if last, looked := c.images.last[h.life]; looked && last == image.Offset {
			continue
		}
		c.images.last[h.life] = image.Offset
		sum := image.Hash()
		if before, known := c.images.sums[image.Offset]; known && before != sum {
			c.fail(sameImages, "%s and %s differ at offset %d of the metadata: %s and %s", c.images.by[image.Offset], h.name, image.Offset,
				hex.EncodeToString(before[:4]), hex.EncodeToString(sum[:4]))
			continue
		}
		c.images.sums[image.Offset], c.images.by[image.Offset] = sum, h.name
	}
}
