package storage

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"moldau/internal/planted"
	"moldau/internal/vfs"
)

// TestPlantedBugs: each bug is found by crashes of the same life as in TestStoreCrashEverywhere and with the same checks,
// which find nothing without a bug.
func TestPlantedBugs(t *testing.T) {
	journal := planted.Has(journalFile)
	for _, b := range []struct {
		name  string
		bug   planted.Bug // nil: none
		hasty func(l *Log, p *promises, name string)
	}{
		{name: "records are not synced", bug: planted.SkipSync(planted.Has(".log"))},
		{name: "names are not synced", bug: planted.SkipSyncDir(planted.Any)},
		{name: "the journal is not synced", bug: planted.SkipSync(journal)},
		{name: "the identity is written in place", bug: planted.WriteInPlace(planted.Has(propertiesFile))},
		{name: "a replaced file is not synced before its rename", bug: planted.SkipSync(planted.Has(".tmp"))},
		{name: "the folder of a deleted topic stays", bug: planted.KeepRemoved("-delete")},
		{name: "the clean mark stays", bug: planted.KeepRemoved(cleanStopFile)},
		{name: "what was not synced counts as synced", hasty: func(l *Log, p *promises, name string) { p.synced[name] = p.appended[name] }},
		{name: "the watermark moves before the sync", hasty: func(l *Log, p *promises, name string) { p.advance(l, name, p.appended[name]) }},
	} {
		t.Run(b.name, func(t *testing.T) {
			at, found := findPlanted(b.bug, b.hasty)
			if found == nil {
				t.Fatal("not found")
			}
			t.Logf("found at %s: %v", at, found)
		})
	}
}

func findPlanted(bug planted.Bug, hasty func(*Log, *promises, string)) (at string, found error) {
	if bug == nil {
		bug = planted.None
	}
	for crashAt := int64(0); ; crashAt++ {
		if crashAt > 60 {
			crashAt += 12 // what shows after the start shows for long
		}
		mem := vfs.NewMem()
		inject := vfs.NewInject(mem, vfs.FromIndex(crashAt, syscall.EIO))
		p := liveWith(bug(inject), hasty)
		for how, disk := range mem.Survivors(rand.New(rand.NewPCG(uint64(crashAt), 7)), 8) {
			if err := p.check(disk); err != nil {
				return fmt.Sprintf("operation %d, %s", crashAt, how), err
			}
		}
		if inject.Count() < crashAt {
			return "", nil
		}
	}
}

// TestPlantedJournalBugs is the same for the checks of the journal alone.
func TestPlantedJournalBugs(t *testing.T) {
	journal := planted.Has(journalFile)
	_, found := journalCrashes(t, planted.WriteInPlace(journal))
	if found == nil {
		t.Error("a journal that is written anew in place is not found")
	}
	t.Logf("found: %v", found)
	found = journalDamage(t, planted.TrustEntries(journal, int64(len(journalMagic))))
	if found == nil {
		t.Error("a journal that is trusted past its good end is not found")
	}
	t.Logf("found: %v", found)
}
