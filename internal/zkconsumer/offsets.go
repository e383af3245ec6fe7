package zkconsumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"

	"moldau/internal/kafka"
)

// groupPath is a path below the group's node.
func (c *Consumer) groupPath(parts ...string) string {
	return strings.Join(append([]string{"/consumers", c.s.Group}, parts...), "/")
}

func (c *Consumer) offsetPath(tp kafka.TopicPartition) string {
	return c.groupPath("offsets", tp.Topic, strconv.Itoa(int(tp.Partition)))
}

func (c *Consumer) ownerPath(tp kafka.TopicPartition) string {
	return c.groupPath("owners", tp.Topic, strconv.Itoa(int(tp.Partition)))
}

// committed reads the offsets to resume from. A partition without one is not in the result.
func (c *Consumer) committed(ctx context.Context, s *share) (map[kafka.TopicPartition]kafka.Offset, error) {
	offsets := make(map[kafka.TopicPartition]kafka.Offset)
	if c.s.KafkaOffsets {
		found, err := kadm.NewClient(s.client).FetchOffsets(ctx, c.s.Group)
		if err != nil {
			return nil, fmt.Errorf("offsets of group %s: %w", c.s.Group, err)
		}
		for tp := range s.parts {
			o, ok := found.Lookup(tp.Topic, tp.Partition)
			switch {
			case ok && o.Err != nil:
				return nil, fmt.Errorf("offset of group %s in %s: %w", c.s.Group, tp, o.Err)
			case ok && o.At >= 0:
				offsets[tp] = o.At
			}
		}
		if !c.s.DualCommit {
			return offsets, nil
		}
	}
	for tp := range s.parts {
		data, _, err := c.tree.Get(c.offsetPath(tp))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(string(data), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.offsetPath(tp), err)
		}
		c.inTree[tp] = n
		if known, ok := offsets[tp]; n >= 0 && (!ok || n > known) {
			offsets[tp] = n
		}
	}
	return offsets, nil
}

// commit stores how far a share has been consumed, with a few tries.
func (c *Consumer) commit(ctx context.Context, s *share) error {
	for try := 0; ; try++ {
		err := c.commitOnce(ctx, s)
		if err == nil || try >= c.s.CommitRetries {
			return err
		}
		pause := time.NewTimer(c.s.CommitBackoff)
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

func (c *Consumer) commitOnce(ctx context.Context, s *share) error {
	consumed := s.consumed()
	if len(consumed) == 0 {
		return nil
	}
	if c.s.KafkaOffsets {
		offsets := make(kadm.Offsets)
		for tp, offset := range consumed {
			offsets.AddOffset(tp.Topic, tp.Partition, offset, -1)
		}
		ctx, cancel := context.WithTimeout(ctx, c.s.RequestTimeout)
		defer cancel()
		if err := kadm.NewClient(s.client).CommitAllOffsets(ctx, c.s.Group, offsets); err != nil {
			return fmt.Errorf("commit offsets of group %s: %w", c.s.Group, err)
		}
		if !c.s.DualCommit {
			return nil
		}
	}
	for _, tp := range s.parts.inOrder() {
		offset, ok := consumed[tp]
		if last, stored := c.inTree[tp]; !ok || stored && last == offset {
			continue
		}
		if err := c.tree.Put(c.offsetPath(tp), strconv.AppendInt(nil, offset, 10)); err != nil {
			return err
		}
		c.inTree[tp] = offset
	}
	return nil
}
