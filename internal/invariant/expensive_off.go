//go:build !expensive

package invariant

const expensive = false
