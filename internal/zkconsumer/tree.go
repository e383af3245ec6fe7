package zkconsumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Place is where a tree is and how it is reached.
type Place struct {
	Connect           string // host:port,… and a chroot, as in zookeeper.connect; the port is 2181 unless given
	SessionTimeout    time.Duration
	ConnectionTimeout time.Duration // for the first connection
	Dial              func(ctx context.Context, network, address string) (net.Conn, error)
	Now               func() time.Time
	Log               *slog.Logger
}

// impatient is a connection on which an answer to the first request is waited for no longer than for others. ZooKeeper's client
// would give a server that has stopped ten times as long, and every request would wait with it.
type impatient struct {
	net.Conn
	most time.Duration
	now  func() time.Time
}

// SetReadDeadline bounds the deadline.
func (c *impatient) SetReadDeadline(t time.Time) error {
	if latest := c.now().Add(c.most); !t.IsZero() && t.After(latest) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// Tree is a ZooKeeper session and the part of the tree below its chroot. After the end of the session it is a new one: Session
// tells. Methods block while ZooKeeper is not to be reached, for about a second per server; Close ends them.
type Tree struct {
	conn *zk.Conn
	root string // chroot, or ""

	mu    sync.Mutex
	armed map[watch]bool // watches that have not fired
}

// watch is one of the two kinds on a path: ZooKeeper's exists and getData share one.
type watch struct {
	path     string // as ZooKeeper has it, below the chroot or not
	children bool
}

// Open makes a session. changed, which may be nil, is called after every watch that fires and every change of the connection;
// it must not block.
func Open(ctx context.Context, p Place, changed func()) (*Tree, error) {
	servers, root, err := splitConnect(p.Connect)
	if err != nil {
		return nil, err
	}
	t := &Tree{root: root, armed: make(map[watch]bool)}
	up := make(chan struct{})
	var once sync.Once
	var lastErr atomic.Value
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		conn, err := p.Dial(ctx, network, address)
		if err != nil {
			lastErr.Store(fmt.Errorf("%w", err))
			return nil, err
		}
		return &impatient{conn, p.SessionTimeout, p.Now}, nil
	}
	t.conn, _, err = zk.Connect(servers, p.SessionTimeout, zk.WithDialer(dial), zk.WithLogger(quietLog{p.Log}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) {
			t.fired(e)
			if e.State == zk.StateHasSession {
				once.Do(func() { close(up) })
			}
			if changed != nil {
				changed()
			}
		}))
	if err != nil {
		return nil, &UnreachableError{p.Connect, err}
	}
	late := time.NewTimer(p.ConnectionTimeout)
	defer late.Stop()
	select {
	case <-up:
		there, err := t.Exists("/")
		if err == nil && !there {
			err = fmt.Errorf("zookeeper.connect=%s: %s does not exist in ZooKeeper", p.Connect, root)
		}
		if err != nil {
			t.conn.Close()
			return nil, err
		}
		return t, nil
	case <-late.C:
		err = errors.New("it does not answer")
		if e, ok := lastErr.Load().(error); ok {
			err = e
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.conn.Close()
	return nil, &UnreachableError{p.Connect, err}
}

// UnreachableError is why there is no session.
type UnreachableError struct {
	Connect string
	Err     error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach ZooKeeper at %s: %v", e.Connect, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// splitConnect takes a connect string apart.
func splitConnect(connect string) (servers []string, root string, err error) {
	hosts, root, _ := strings.Cut(connect, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if host = strings.TrimSpace(host); host != "" {
			servers = append(servers, host)
		}
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("%q: want host:port", connect)
	}
	if root = strings.Trim(root, "/"); root != "" {
		root = "/" + root
	}
	return zk.FormatServers(servers), root, nil
}

// quietLog is what ZooKeeper's client says: of use to who looks for a fault.
type quietLog struct{ log *slog.Logger }

func (q quietLog) Printf(format string, args ...any) { q.log.Debug(fmt.Sprintf(format, args...)) }

func (t *Tree) fired(e zk.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Type {
	case zk.EventNodeChildrenChanged:
		delete(t.armed, watch{e.Path, true})
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		delete(t.armed, watch{e.Path, false})
	case zk.EventNodeDeleted, zk.EventNotWatching:
		delete(t.armed, watch{e.Path, true})
		delete(t.armed, watch{e.Path, false})
	}
}

// arm reports whether a watch has yet to be set. One that is armed would only be kept twice: what it fires for is read after
// the call of changed that follows.
func (t *Tree) arm(w watch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.armed[w] {
		return false
	}
	t.armed[w] = true
	return true
}

func (t *Tree) disarm(w watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.armed, w)
}

// Session is the id of the session; Connected tells whether it has a connection.
func (t *Tree) Session() int64 { return t.conn.SessionID() }

// Connected tells whether a server answers at the moment.
func (t *Tree) Connected() bool { return t.conn.State() == zk.StateHasSession }

// Close ends the session, and with it what it owns in the tree.
func (t *Tree) Close() { t.conn.Close() }

// Conn is the session itself, which knows no chroot; Path turns a path below the chroot into its own.
func (t *Tree) Conn() *zk.Conn { return t.conn }

// Path is a path as Conn wants it.
func (t *Tree) Path(p string) string {
	if p == "/" && t.root != "" {
		return t.root
	}
	return t.root + p
}

// Children lists the names below a node, sorted. A node that is not there has none.
func (t *Tree) Children(p string) ([]string, error) {
	names, _, err := t.conn.Children(t.Path(p))
	return sorted(names, p, err)
}

// watchChildren does so and watches.
func (t *Tree) watchChildren(p string) ([]string, error) {
	w := watch{t.Path(p), true}
	if !t.arm(w) {
		return t.Children(p)
	}
	names, _, _, err := t.conn.ChildrenW(w.path)
	if err != nil {
		t.disarm(w)
	}
	return sorted(names, p, err)
}

func sorted(names []string, p string, err error) ([]string, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", p, err)
	}
	slices.Sort(names)
	return names, nil
}

// Get reads a node.
func (t *Tree) Get(p string) ([]byte, *zk.Stat, error) {
	data, stat, err := t.conn.Get(t.Path(p))
	if err != nil {
		err = fmt.Errorf("read %s: %w", p, err)
	}
	return data, stat, err
}

// watchData reads a node and watches it, or its creation.
func (t *Tree) watchData(p string) ([]byte, error) {
	w := watch{t.Path(p), false}
	if !t.arm(w) {
		data, _, err := t.Get(p)
		return data, err
	}
	data, _, _, err := t.conn.GetW(w.path)
	if errors.Is(err, zk.ErrNoNode) {
		// Nothing is armed by that answer. The node may come before the watch does: then it fires only for the next change.
		var there bool
		if there, _, _, err = t.conn.ExistsW(w.path); err == nil && !there {
			err = zk.ErrNoNode
		} else if err == nil {
			data, _, err = t.conn.Get(w.path)
		}
	}
	if err != nil {
		if !errors.Is(err, zk.ErrNoNode) {
			t.disarm(w)
		}
		err = fmt.Errorf("read %s: %w", p, err)
	}
	return data, err
}

// Exists tells whether there is a node.
func (t *Tree) Exists(p string) (bool, error) {
	there, _, err := t.conn.Exists(t.Path(p))
	if err != nil {
		err = fmt.Errorf("look for %s: %w", p, err)
	}
	return there, err
}

// watchExists does so and watches.
func (t *Tree) watchExists(p string) (bool, error) {
	w := watch{t.Path(p), false}
	if !t.arm(w) {
		return t.Exists(p)
	}
	there, _, _, err := t.conn.ExistsW(w.path)
	if err != nil {
		t.disarm(w)
		err = fmt.Errorf("look for %s: %w", p, err)
	}
	return there, err
}

// Put writes a node, and makes it and its parents if they are not there.
func (t *Tree) Put(p string, data []byte) error {
	_, err := t.conn.Set(t.Path(p), data, -1)
	if errors.Is(err, zk.ErrNoNode) {
		if err = t.create(p, data, 0); errors.Is(err, zk.ErrNodeExists) {
			_, err = t.conn.Set(t.Path(p), data, -1)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", p, err)
	}
	return nil
}

// create makes a node and what is missing above it, which has no data.
func (t *Tree) create(p string, data []byte, flags int32) error {
	_, err := t.conn.Create(t.Path(p), data, flags, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrNoNode) || path.Dir(p) == "/" {
		return err
	}
	if err := t.create(path.Dir(p), nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	_, err = t.conn.Create(t.Path(p), data, flags, zk.WorldACL(zk.PermAll))
	return err
}

// errTaken says that a node belongs to another session.
var errTaken = errors.New("another session has it")

// hold makes a node that lasts as long as the session. It may be there already: the answer to an earlier try may be lost.
func (t *Tree) hold(p string, data []byte) error {
	err := t.create(p, data, zk.FlagEphemeral)
	if errors.Is(err, zk.ErrNodeExists) {
		var stat *zk.Stat
		switch _, stat, err = t.conn.Get(t.Path(p)); {
		case errors.Is(err, zk.ErrNoNode): // gone in between
			err = errTaken
		case err == nil && stat.EphemeralOwner != t.Session():
			err = errTaken
		}
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", p, err)
	}
	return nil
}

// Delete removes a node. One that is not there is removed already.
func (t *Tree) Delete(p string) error {
	if err := t.conn.Delete(t.Path(p), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("delete %s: %w", p, err)
	}
	return nil
}

// DeleteAll removes a node and everything below it.
func (t *Tree) DeleteAll(p string) error {
	names, err := t.Children(p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.DeleteAll(path.Join(p, name)); err != nil {
			return err
		}
	}
	return t.Delete(p)
}
