package quorum

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

// Nodes that are not formatted form a cluster when every endpoint that their configuration lists answers that it is not
// formatted either and lists the same. Then the one with the lowest node id makes a cluster id, stores it with the voter set
// of all that answered, and answers with both from then on; each of the others finds itself there and stores the same.
// So whoever crashes on the way comes back to a question that has the same answer. A node that does not find itself there
// joins: it follows, and has no vote until somebody adds it.

const (
	formPause   = 50 * time.Millisecond // between two rounds of questions
	formTimeout = time.Second           // for one answer
)

// FormOptions say who a node is that is not formatted, and whom its configuration lists.
type FormOptions struct {
	FS        vfs.FS
	Dir       string // metadata.log.dir
	ClusterID string // cluster.id; "": whatever is found or made
	NodeID    kafka.NodeID
	DirID     kafka.DirID // of Dir, durable
	Endpoints []Endpoint  // this node's controller listeners
	CanVote   bool        // process.roles has controller
	Voters    []Listed    // controller.quorum.voters
	Bootstrap []string    // controller.quorum.bootstrap.servers; not looked at when there are Voters
	Dial      func(ctx context.Context, address string) (net.Conn, error)
	Now       func() time.Time
	Logger    *slog.Logger
}

// Listed is one entry of controller.quorum.voters.
type Listed struct {
	ID      kafka.NodeID
	Address string // host:port
}

// Formed is the cluster that a node belongs to from now on.
type Formed struct {
	ClusterID string
	Voters    []Voter // for Options.Voters; nil for a node that joins
	Join      bool    // the cluster was there before, and this node is none of its first voters
}

// nodeInfo is what a node answers to a request with wire.FormKey. docs/format has its bytes.
type nodeInfo struct {
	node      Voter
	listed    []string // sorted
	clusterID string   // "": not formatted
	voters    []Voter
}

func (i *nodeInfo) appendTo(dst []byte) []byte {
	dst = appendVoter(dst, i.node)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(i.listed)))
	for _, a := range i.listed {
		dst = appendShort(dst, a)
	}
	dst = appendShort(dst, i.clusterID)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(i.voters)))
	for _, v := range i.voters {
		dst = appendVoter(dst, v)
	}
	return dst
}

func readNodeInfo(body []byte) (i nodeInfo, err error) {
	r := reader{rest: body}
	i.node = r.voter()
	for n := r.uint16(); n > 0 && r.err == nil; n-- {
		i.listed = append(i.listed, r.short())
	}
	i.clusterID = r.short()
	for n := r.uint16(); n > 0 && r.err == nil; n-- {
		i.voters = append(i.voters, r.voter())
	}
	if r.err != nil {
		return nodeInfo{}, fmt.Errorf("what a node is: %w", r.err)
	}
	return i, checkVoters(i.voters)
}

// Answer is the body of the response to a request with wire.FormKey while Form runs.
func (o *FormOptions) Answer() []byte {
	return (&nodeInfo{node: o.self(), listed: o.listed()}).appendTo(nil)
}

// FormAnswer is that body once the node is formatted.
func (q *Quorum) FormAnswer() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return (&nodeInfo{node: q.self, clusterID: q.o.ClusterID, voters: q.members.newest().voters}).appendTo(nil)
}

func (o *FormOptions) self() Voter {
	return Voter{ID: o.NodeID, DirID: o.DirID, Endpoints: o.Endpoints}
}

func (o *FormOptions) listed() []string {
	list := slices.Clone(o.Bootstrap)
	if len(o.Voters) > 0 {
		list = nil
		for _, v := range o.Voters {
			list = append(list, fmt.Sprintf("%d@%s", v.ID, v.Address))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// HasLog reports whether dir, a metadata.log.dir, has a metadata log: what is in it must not be formed again.
func HasLog(fsys vfs.FS, dir string) bool {
	_, err := fsys.Stat(filepath.Join(dir, kafka.TopicPartition{Topic: TopicName}.String()))
	return !errors.Is(err, fs.ErrNotExist)
}

// Form finds or forms the cluster that a node belongs to which is not formatted, and stores the first voter set. The caller
// serves Answer meanwhile, and afterwards stores the cluster id: until that is done the node is not formatted, and Form may run
// again. It waits until ctx ends for endpoints that do not answer.
func Form(ctx context.Context, o FormOptions) (Formed, error) {
	formed, err := o.find(ctx)
	if err != nil {
		return Formed{}, fmt.Errorf("form the cluster: %w", err)
	}
	if err := o.store(formed); err != nil {
		return Formed{}, fmt.Errorf("store the voter set of the cluster: %w", err)
	}
	return formed, nil
}

func (o *FormOptions) find(ctx context.Context) (Formed, error) {
	addresses := slices.Clone(o.Bootstrap)
	if len(o.Voters) > 0 {
		addresses = nil
		for _, v := range o.Voters {
			addresses = append(addresses, v.Address)
		}
	}
	if len(o.Voters) == 1 && o.Voters[0].ID == o.NodeID && o.CanVote {
		return o.cluster([]Voter{o.self()}), nil
	}
	if len(addresses) == 0 {
		return Formed{}, errors.New("set controller.quorum.bootstrap.servers or controller.quorum.voters")
	}
	silent := complaint{told: o.Now()}
	for {
		answers, faults := o.askAll(ctx, addresses)
		formed, waits, err := o.decide(addresses, answers, faults)
		if err != nil || waits == "" {
			return formed, err
		}
		if silent.due(o.Now()) {
			o.Logger.Warn("waiting for the controllers of the cluster", "for", waits)
		}
		if !pause(ctx, formPause) {
			return Formed{}, fmt.Errorf("%w while waiting for: %s", context.Cause(ctx), waits)
		}
	}
}

// askAll asks every address; who does not answer has nil, and the reason.
func (o *FormOptions) askAll(ctx context.Context, addresses []string) ([]*nodeInfo, []error) {
	answers, faults := make([]*nodeInfo, len(addresses)), make([]error, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, formTimeout)
			defer cancel()
			info, err := askNode(ctx, address, o.Dial)
			if faults[i] = err; err == nil {
				answers[i] = &info
			}
		})
	}
	asking.Wait()
	return answers, faults
}

// errBrokerListener says that an address is one of those for clients. There a private key ends the connection, and the log tells of it.
var errBrokerListener = errors.New("a broker's listener, where no controller answers: name the port of the controller's")

// askNode asks whoever listens at address who it is.
func askNode(ctx context.Context, address string, dial func(context.Context, string) (net.Conn, error)) (nodeInfo, error) {
	conn, err := peer.Dial(ctx, address, peer.Options{Dial: dial, ClientID: "forming", MaxBytes: 1 << 20})
	if err != nil {
		return nodeInfo{}, err
	}
	defer conn.Close()
	if _, _, produces := conn.Versions(kmsg.Produce.Int16()); produces {
		return nodeInfo{}, errBrokerListener
	}
	body, err := conn.DoPrivate(ctx, wire.FormKey, nil)
	if err != nil {
		return nodeInfo{}, err
	}
	return readNodeInfo(body)
}

func (q *Quorum) ask(ctx context.Context, address string) (nodeInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.o.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	return askNode(ctx, address, q.o.Dial)
}

// decide draws the conclusion from one round of answers, and of faults where there is none: a cluster, an error that no waiting cures, or whom and what to wait for.
func (o *FormOptions) decide(addresses []string, answers []*nodeInfo, faults []error) (formed Formed, waits string, err error) {
	var reasons []string
	for i, a := range answers {
		switch {
		case a == nil:
			reasons = append(reasons, fmt.Sprintf("%s (no answer: %v)", addresses[i], faults[i]))
		case a.clusterID == "":
		case o.ClusterID != "" && o.ClusterID != a.clusterID:
			return Formed{}, "", fmt.Errorf("node %d at %s belongs to cluster %s, and cluster.id is %s", a.node.ID, addresses[i], a.clusterID, o.ClusterID)
		case formed.ClusterID != "" && formed.ClusterID != a.clusterID:
			return Formed{}, "", fmt.Errorf("node %d at %s belongs to cluster %s, others that the configuration lists to %s",
				a.node.ID, addresses[i], a.clusterID, formed.ClusterID)
		case formed.ClusterID == "" || len(formed.Voters) == 0:
			formed = Formed{ClusterID: a.clusterID, Voters: a.voters}
		}
	}
	if formed.ClusterID != "" {
		if _, mine := find(formed.Voters, o.self()); !mine || !o.CanVote {
			formed.Voters, formed.Join = nil, true
		}
		return formed, "", nil
	}
	if !o.CanVote {
		return Formed{}, cmp.Or(strings.Join(reasons, ", "), "the controllers to form a cluster"), nil
	}
	if len(reasons) > 0 {
		return Formed{}, strings.Join(reasons, ", "), nil
	}
	voters, reason := o.agree(addresses, answers)
	if reason != "" {
		return Formed{}, reason, nil
	}
	if voters[0].ID != o.NodeID {
		return Formed{}, fmt.Sprintf("node %d, which has the lowest id, to form the cluster", voters[0].ID), nil
	}
	return o.cluster(voters), "", nil
}

// agree returns the voters when all have answered that they are not formatted: everybody lists the same, each is who the list
// says, and this node is one of them. Otherwise it says what is in the way.
func (o *FormOptions) agree(addresses []string, answers []*nodeInfo) (voters []Voter, reason string) {
	mine := o.listed()
	for i, a := range answers {
		switch {
		case !slices.Equal(a.listed, mine):
			return nil, fmt.Sprintf("node %d at %s, which lists the controllers [%s], to list the same as this node, [%s]",
				a.node.ID, addresses[i], strings.Join(a.listed, ", "), strings.Join(mine, ", "))
		case len(o.Voters) > 0 && o.Voters[i].ID != a.node.ID:
			return nil, fmt.Sprintf("node %d to listen at %s, where node %d does", o.Voters[i].ID, addresses[i], a.node.ID)
		case len(a.node.Endpoints) == 0:
			return nil, fmt.Sprintf("node %d at %s to have a controller listener", a.node.ID, addresses[i])
		}
		if _, twice := find(voters, a.node); twice {
			continue // one node at two addresses
		}
		voters = append(voters, a.node)
	}
	sortVoters(voters)
	if err := checkVoters(voters); err != nil {
		return nil, "node ids that are given once: " + err.Error()
	}
	if _, ok := find(voters, o.self()); !ok {
		return nil, "a cluster to be formed by the controllers that are listed; this node is none of them"
	}
	return voters, ""
}

func (o *FormOptions) cluster(voters []Voter) Formed {
	return Formed{ClusterID: cmp.Or(o.ClusterID, kafka.NewUUID().String()), Voters: voters}
}

// store makes the first voter set durable, as an empty log. What is there belongs to no cluster that this node knows of: an
// earlier try of this, which goes, or the log of a node that lost the files that say whose it is, which is set aside.
func (o *FormOptions) store(formed Formed) error {
	s := &store{fs: o.FS, dir: filepath.Join(o.Dir, folderName()), logger: o.Logger}
	if err := s.clear(o.Dir); err != nil {
		return err
	}
	if formed.Join {
		return nil // the log comes from the leader
	}
	if err := s.makeFolder(o.Dir); err != nil {
		return err
	}
	return s.form(formed.Voters, o.Now().UnixMilli())
}

// clear takes the folder of the metadata log out of the way.
func (s *store) clear(parent string) error {
	entries, err := s.fs.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	empty := true
	for _, e := range entries {
		id, isSnapshot := parseSnapshotName(e.Name)
		empty = empty && !(strings.HasSuffix(e.Name, ".log") && e.Size > 0 || isSnapshot && id.EndOffset > 0)
	}
	if empty {
		if err := s.fs.RemoveAll(s.dir); err != nil {
			return err
		}
		return s.fs.SyncDir(parent)
	}
	aside := filepath.Join(parent, commitlog.StrayDirName(kafka.TopicPartition{Topic: TopicName}, kafka.NewUUID()))
	if err := s.fs.Rename(s.dir, aside); err != nil {
		return err
	}
	s.logger.Warn("a metadata log that belongs to no known cluster was set aside", "folder", aside)
	return s.fs.SyncDir(parent)
}
