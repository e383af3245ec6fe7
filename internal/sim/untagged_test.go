//go:build !sim

package sim

const tagged = false
