//go:build !race

package wire

const allocationFactor = 1
