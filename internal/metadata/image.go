package metadata

import (
	"bytes"
	"crypto/sha256"

	"moldau/internal/kafka"
)

// Image is all of a cluster's metadata as of one offset of the metadata log. It never changes, and neither does anything
// that it points to.
type Image struct {
	Offset kafka.Offset // of the last record contained, -1 when empty
	Epoch  kafka.Epoch  // of that record, -1 when empty

	Features         Features
	Cluster          Cluster
	Topics           Topics
	Configs          Configs
	ClientQuotas     ClientQuotas
	ProducerIDs      ProducerIDs
	Acls             Acls
	Scram            Scram
	DelegationTokens DelegationTokens
}

// EmptyImage returns the image of an empty log.
func EmptyImage() *Image {
	return &Image{
		Offset:           -1,
		Epoch:            -1,
		Features:         Features{levels: newOrderedTree[string, int16]()},
		Cluster:          emptyCluster(),
		Topics:           emptyTopics(),
		Configs:          Configs{resources: newTree[ConfigResource, map[string]string](compareResource)},
		ClientQuotas:     ClientQuotas{entities: newOrderedTree[string, *QuotaEntity]()},
		Acls:             Acls{entries: newTree[kafka.UUID, *AccessControlEntryRecord](compareUUID)},
		Scram:            Scram{credentials: newTree[ScramKey, *UserScramCredentialRecord](compareScramKey)},
		DelegationTokens: DelegationTokens{tokens: newOrderedTree[string, *DelegationTokenRecord]()},
	}
}

// Hash returns a digest of everything but offset and epoch. Images with equal content have equal hashes.
func (i *Image) Hash() [sha256.Size]byte {
	h := sha256.New()
	var buf []byte
	i.Records(func(r Record) {
		_, highest := newRecord(r.Type())
		buf = Encode(buf[:0], r, highest)
		h.Write(buf) // never fails; every encoded record ends where its own bytes say
	})
	return [sha256.Size]byte(h.Sum(nil))
}

func compareUUID(a, b kafka.UUID) int { return bytes.Compare(a[:], b[:]) }
