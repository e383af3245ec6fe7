//go:build !linux

package harness

// InOwnMounts runs nothing: there are no mount namespaces.
func InOwnMounts() (code int, done bool) { return 0, false }

// Disk is a disk whose power can be cut, where that is possible.
type Disk struct{}

// NewDisk ends the test through Missing.
func NewDisk(t T, _ string, _ int64) *Disk {
	Missing(t, "cutting the power of a disk takes Linux")
	return nil
}

// CutPower is not reached.
func (*Disk) CutPower(T) {}

// PowerOn is not reached.
func (*Disk) PowerOn(T) {}

// Freeze is not reached.
func (*Disk) Freeze(T) {}

// Thaw is not reached.
func (*Disk) Thaw(T) {}
