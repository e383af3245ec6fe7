package storage

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// propertiesFile says whose directory it is. Mirrors MetaProperties and MetaPropertiesEnsemble; KIP-631, KIP-858.
const propertiesFile = "meta.properties"

// identity is the content of meta.properties, version 1.
type identity struct {
	clusterID string // "" = missing
	nodeID    kafka.NodeID
	dirID     kafka.DirID // zero = missing, as in directories of Kafka before 3.7
}

func parseIdentity(path string, text []byte) (identity, error) {
	bad := func(format string, args ...any) (identity, error) {
		return identity{}, fmt.Errorf("%s: %s; restore the file, or move the directory away to start it empty", path, fmt.Sprintf(format, args...))
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return bad("%v", err)
	}
	switch version := p.GetString("version", ""); version {
	case "1":
	case "0":
		return bad("version=0 was written by a broker that kept its metadata in ZooKeeper, which can not be taken over")
	default:
		return bad("version=%s, want 1", version)
	}
	node := p.GetString("node.id", "")
	id, err := strconv.ParseInt(node, 10, 32)
	if err != nil || id < 0 {
		return bad("node.id=%s is not a node id", node)
	}
	i := identity{clusterID: p.GetString("cluster.id", ""), nodeID: kafka.NodeID(id)}
	if text, ok := p.Get("directory.id"); ok {
		if i.dirID, err = kafka.ParseUUID(text); err != nil {
			return bad("directory.id: %v", err)
		}
		if i.dirID == kafka.DirUnassigned || i.dirID == kafka.DirLost || i.dirID == kafka.DirMigrating {
			return bad("directory.id=%s is a reserved id", text)
		}
	}
	return i, nil
}

// text returns what java.util.Properties.store writes: an empty comment, the date, then the keys in order.
func (i identity) text(now time.Time) []byte {
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, "=", `\=`, "#", `\#`, "!", `\!`)
	var b strings.Builder
	b.WriteString("#\n#" + now.Format("Mon Jan 02 15:04:05 MST 2006") + "\n")
	if i.clusterID != "" { // or claimed for a cluster that is still to form
		b.WriteString("cluster.id=" + escape.Replace(i.clusterID) + "\n")
	}
	b.WriteString("directory.id=" + escape.Replace(i.dirID.String()) + "\n")
	b.WriteString("node.id=" + strconv.Itoa(int(i.nodeID)) + "\n")
	b.WriteString("version=1\n")
	return []byte(b.String())
}

func storeIdentity(fs vfs.FS, dir string, i identity, now time.Time) error {
	return vfs.WriteFileAtomic(fs, filepath.Join(dir, propertiesFile), i.text(now))
}

// KeptNodeID is the node that directories belong to, by the first of them that says so. A file that cannot be read is passed
// over here: opening the directories tells what is wrong with it.
func KeptNodeID(fs vfs.FS, dirs []string) (kafka.NodeID, bool) {
	for _, dir := range dirs {
		name := filepath.Join(dir, propertiesFile)
		if text, err := vfs.ReadFile(fs, name); err == nil {
			if i, err := parseIdentity(name, text); err == nil {
				return i.nodeID, true
			}
		}
	}
	return kafka.NoNode, false
}
