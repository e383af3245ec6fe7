package group

import "unicode/utf16"

// partitionOf is the partition of __consumer_offsets that keeps a group. Mirrors GroupCoordinatorService.partitionFor:
// every broker and some tools work it out for themselves, so it can never change.
func partitionOf(group string, partitions int32) int32 {
	var h int32 // java.lang.String.hashCode
	for _, unit := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(unit)
	}
	if h < 0 {
		if h = -h; h < 0 {
			h = 0 // the smallest number has no opposite (org.apache.kafka.common.utils.Utils.abs)
		}
	}
	return h % partitions
}
