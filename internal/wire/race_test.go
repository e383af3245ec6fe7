//go:build race

package wire

// allocationFactor is how much more the race detector's allocator takes: it does not pack small objects together.
const allocationFactor = 2
