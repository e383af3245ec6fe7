//go:build sim

package sim

import (
	"moldau/internal/planted"
)

// Mutant is a planted bug: proof that the net has no hole there. All are planted at the seams; the product has no trace of
// them.
type Mutant struct {
	Name  string
	wrap  planted.Bug // between the node and its disk
	alter func(*Plan) // what the node is told and the checkers are not
	// needs tells whether a plan can show it at all.
	needs func(Plan) bool
}

// Mutants are the planted bugs that must be caught.
func Mutants() []Mutant {
	powerLoss := func(p Plan) bool { return p.has(PowerLoss) && !p.Lazy }
	return []Mutant{
		{Name: "records are not synced", needs: powerLoss, wrap: planted.SkipSync(planted.Has(".log").But("__cluster_metadata"))},
		{Name: "the metadata log is not synced", needs: powerLoss, wrap: planted.SkipSync(planted.Has("__cluster_metadata-0/"))},
		{Name: "names are not synced", needs: powerLoss, wrap: planted.SkipSyncDir(planted.Any)},
		{Name: "a replaced file is not synced before its rename", needs: powerLoss, wrap: planted.SkipSync(planted.Has(".tmp"))},
		{Name: "the journal is not synced", wrap: planted.SkipSync(planted.Has("moldau.journal")),
			needs: func(p Plan) bool { return powerLoss(p) && p.DeleteRecords }},
		{Name: "a failed sync is tried again", wrap: planted.RetrySync(),
			needs: func(p Plan) bool { return p.has(DiskError) && p.has(PowerLoss) && !p.Lazy }},
		{Name: "answers do not wait for the disk", needs: powerLoss, alter: func(p *Plan) { p.Lazy = true }},
		{Name: "a failed write passes for a good one", wrap: planted.HideWriteErrors(),
			needs: func(p Plan) bool { return p.has(DiskError) }},
	}
}
