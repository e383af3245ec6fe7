package node

import (
	"errors"
	"strings"
	"testing"

	"moldau/internal/vfs"
)

// TestMetadataDirectoryApart: the metadata log may lie in a directory that is none of log.dirs. It is the node's like the
// others, locked and with an identity, and the log is not begun anew because somebody changed his mind about where it lies.
func TestMetadataDirectoryApart(t *testing.T) {
	disk := vfs.NewMem()
	apart := options(t, base+"metadata.log.dir=/meta\n", disk)
	n := start(t, apart)
	createTopic(t, n, "orders")
	before := *metadataOf(t, n, "PLAINTEXT").ClusterID
	for path, want := range map[string]bool{
		"/meta/__cluster_metadata-0": true, "/meta/meta.properties": true, "/disk/meta.properties": true, "/disk/__cluster_metadata-0": false, "/disk/orders-0": true, "/meta/orders-0": false,
	} {
		if there, err := vfs.Exists(disk, path); err != nil || there != want {
			t.Errorf("%s is there: %t %v", path, there, err)
		}
	}
	other := options(t, strings.Replace(base, "/disk", "/other", 1)+"metadata.log.dir=/meta\n", disk)
	refused := func(o Options, want string) {
		t.Helper()
		second, err := Build(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Start(t.Context()); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("the start of another: %v, want %q", err, want)
		}
	}
	refused(other, "metadata.log.dir /meta is in use")
	stop(t, n)

	n = start(t, apart)
	after := metadataOf(t, n, "PLAINTEXT")
	if *after.ClusterID != before || len(after.Topics) != 1 {
		t.Errorf("cluster %s with %d topics became %s with %d", before, 1, *after.ClusterID, len(after.Topics))
	}
	stop(t, n)

	// Another cluster's.
	n = start(t, options(t, strings.Replace(base, "/disk", "/foreign", 1), disk))
	stop(t, n)
	refused(options(t, base+"metadata.log.dir=/foreign\n", disk), "belongs to cluster")
	// One that was in log.dirs.
	refused(options(t, strings.Replace(base, "/disk", "/foreign", 1)+"metadata.log.dir=/new\n", disk), "set metadata.log.dir=/foreign")
}
