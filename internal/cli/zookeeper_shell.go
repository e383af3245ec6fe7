package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"moldau/internal/zkconsumer"
)

// zookeeperShellCommand is Kafka's zookeeper-shell.sh (ZooKeeperMain of ZooKeeper 3.4).
func (a *app) zookeeperShellCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zookeeper-shell host:port[/path] [command]",
		Short: "Look at and change ZooKeeper's nodes",
		Long: "Look at and change ZooKeeper's nodes.\n\nWithout a command, commands are read from standard input:\n\n" + shellHelp() +
			"\nWith watch, one change is told when it comes. What nodes hold goes to standard output, all else to standard error.",
		Example: "  moldau zookeeper-shell localhost:2181 get /brokers/topics/first/partitions/0/state\n  moldau zookeeper-shell localhost:2181",
		Args:    usage(cobra.MinimumNArgs(1)),
		Version: toolVersion(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, release := a.interruptible(cmd.Context())
			defer release()
			tree, err := a.tree(ctx, args[0])
			if err != nil {
				return err
			}
			s := &zookeeperShell{a: a, tree: tree}
			defer s.close()
			if len(args) > 1 {
				return s.run(args[1:])
			}
			return s.interact(ctx)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the address is the shell's
	return cmd
}

// shellVerb is a command of the shell.
type shellVerb struct {
	usage    string // its arguments
	min, max int    // how many
	do       func(s *zookeeperShell, args []string) error
}

func shellVerbs() map[string]shellVerb {
	return map[string]shellVerb{
		"ls":     {"path [watch]", 1, 2, (*zookeeperShell).list},
		"ls2":    {"path [watch]", 1, 2, (*zookeeperShell).listAndStat},
		"get":    {"path [watch]", 1, 2, (*zookeeperShell).get},
		"stat":   {"path [watch]", 1, 2, (*zookeeperShell).stat},
		"set":    {"path data [version]", 2, 3, (*zookeeperShell).set},
		"create": {"[-s] [-e] path data [acl]", 2, 5, (*zookeeperShell).create},
		"delete": {"path [version]", 1, 2, (*zookeeperShell).delete},
		"rmr":    {"path", 1, 1, (*zookeeperShell).deleteAll},
		"getAcl": {"path", 1, 1, (*zookeeperShell).getACL},
		"setAcl": {"path acl", 2, 2, (*zookeeperShell).setACL},
		"sync":   {"path", 1, 1, (*zookeeperShell).sync},
	}
}

func shellHelp() string {
	var b strings.Builder
	verbs := shellVerbs()
	for _, name := range sortedKeys(verbs) {
		fmt.Fprintf(&b, "\t%s %s\n", name, verbs[name].usage)
	}
	return b.String() + "\thelp\n\tquit\n"
}

// zookeeperShell is a session and what came of it.
type zookeeperShell struct {
	a    *app
	tree *zkconsumer.Tree

	watches sync.WaitGroup
	print   sync.Mutex // events come at any time
}

// close ends the session, and with it the watches.
func (s *zookeeperShell) close() {
	s.tree.Close()
	s.watches.Wait()
}

// interact runs the lines of standard input until quit or its end. A command that fails does not end it.
func (s *zookeeperShell) interact(ctx context.Context) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() { // left behind by a signal: reading cannot be interrupted
		in := bufio.NewScanner(s.a.stdin)
		in.Buffer(nil, 2<<20)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- in.Err()
	}()
	for {
		if s.a.terminal {
			s.say(s.a.stderr, "[zk] ")
		}
		select {
		case line := <-lines:
			args, err := shellWords(line)
			switch {
			case err == nil && len(args) == 0:
				continue
			case err == nil && args[0] == "quit":
				return nil
			case err == nil && args[0] == "help":
				s.say(s.a.stderr, shellHelp())
				continue
			case err == nil:
				err = s.run(args)
			}
			if err != nil {
				s.say(s.a.stderr, err.Error()+"\n")
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return &failure{exitInterrupted, errInterrupted}
		}
	}
}

// shellWords splits a line at spaces, except between quotes.
func shellWords(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		word := ""
		if quote := rest[0]; quote == '"' || quote == '\'' {
			end := strings.IndexByte(rest[1:], quote)
			if end < 0 {
				return nil, fmt.Errorf("%s: a quote is not closed", line)
			}
			word, rest = rest[1:1+end], rest[2+end:]
		} else {
			end := strings.IndexAny(rest, " \t")
			if end < 0 {
				end = len(rest)
			}
			word, rest = rest[:end], rest[end:]
		}
		words = append(words, word)
	}
	return words, nil
}

// run runs one command.
func (s *zookeeperShell) run(args []string) error {
	verb, ok := shellVerbs()[args[0]]
	if !ok {
		return &failure{exitUsage, fmt.Errorf("%s is not a command; there are\n%s", args[0], strings.TrimSuffix(shellHelp(), "\n"))}
	}
	rest := args[1:]
	if len(rest) < verb.min || len(rest) > verb.max {
		return &failure{exitUsage, fmt.Errorf("want %s %s", args[0], verb.usage)}
	}
	for i, word := range rest { // the first that is no flag
		if !strings.HasPrefix(word, "-") || args[0] != "create" {
			if !strings.HasPrefix(word, "/") || word != "/" && strings.HasSuffix(word, "/") {
				return &failure{exitUsage, fmt.Errorf("%s is not a path: it begins with / and does not end with one", word)}
			}
			return s.explain(verb.do(s, rest), rest[i])
		}
	}
	return &failure{exitUsage, fmt.Errorf("want %s %s", args[0], verb.usage)}
}

// explain tells an error of ZooKeeper's in the words of its own shell.
func (s *zookeeperShell) explain(err error, node string) error {
	for _, known := range []struct {
		err  error
		text string
	}{
		{zk.ErrNoNode, "Node does not exist: "}, {zk.ErrNodeExists, "Node already exists: "}, {zk.ErrBadVersion, "version No is not valid : "},
		{zk.ErrNotEmpty, "Node not empty: "}, {zk.ErrNoChildrenForEphemerals, "Ephemerals cannot have children: "},
		{zk.ErrNoAuth, "Authentication is not valid : "}, {zk.ErrInvalidACL, "Acl is not valid : "}, {zk.ErrBadArguments, "Arguments are not valid : "},
	} {
		if errors.Is(err, known.err) {
			return fmt.Errorf("%s%s", known.text, node)
		}
	}
	return err
}

func (s *zookeeperShell) say(w io.Writer, text string) {
	s.print.Lock()
	defer s.print.Unlock()
	_, _ = io.WriteString(w, text)
}

// watch tells of the one event that a watch brings.
func (s *zookeeperShell) watch(events <-chan zk.Event) {
	s.watches.Go(func() {
		e, ok := <-events
		if ok && e.Type != zk.EventNotWatching {
			root := s.tree.Path("")
			s.say(s.a.stdout, fmt.Sprintf("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:%s path:%s\n", strings.TrimPrefix(e.Type.String(), "Event"), path.Join("/", strings.TrimPrefix(e.Path, root))))
		}
	})
}

func (s *zookeeperShell) children(args []string) (names []string, stat *zk.Stat, err error) {
	var events <-chan zk.Event
	if len(args) > 1 {
		names, stat, events, err = s.tree.Conn().ChildrenW(s.tree.Path(args[0]))
	} else {
		names, stat, err = s.tree.Conn().Children(s.tree.Path(args[0]))
	}
	if err != nil {
		return nil, nil, err
	}
	if events != nil {
		s.watch(events)
	}
	slices.Sort(names)
	s.say(s.a.stdout, "["+strings.Join(names, ", ")+"]\n")
	return names, stat, nil
}

func (s *zookeeperShell) list(args []string) error {
	_, _, err := s.children(args)
	return err
}

func (s *zookeeperShell) listAndStat(args []string) error {
	_, stat, err := s.children(args)
	if err == nil {
		s.say(s.a.stderr, statText(stat))
	}
	return err
}

func (s *zookeeperShell) get(args []string) (err error) {
	var data []byte
	var stat *zk.Stat
	if len(args) > 1 {
		var events <-chan zk.Event
		if data, stat, events, err = s.tree.Conn().GetW(s.tree.Path(args[0])); err == nil {
			s.watch(events)
		}
	} else {
		data, stat, err = s.tree.Conn().Get(s.tree.Path(args[0]))
	}
	if err != nil {
		return err
	}
	s.say(s.a.stdout, string(data)+"\n")
	s.say(s.a.stderr, statText(stat))
	return nil
}

func (s *zookeeperShell) stat(args []string) (err error) {
	var there bool
	var stat *zk.Stat
	if len(args) > 1 {
		var events <-chan zk.Event
		if there, stat, events, err = s.tree.Conn().ExistsW(s.tree.Path(args[0])); err == nil {
			s.watch(events)
		}
	} else {
		there, stat, err = s.tree.Conn().Exists(s.tree.Path(args[0]))
	}
	switch {
	case err != nil:
		return err
	case !there:
		return zk.ErrNoNode
	}
	s.say(s.a.stderr, statText(stat))
	return nil
}

// statText is a Stat as ZooKeeper's shell prints it.
func statText(stat *zk.Stat) string {
	date := func(ms int64) string { return time.UnixMilli(ms).Format("Mon Jan 02 15:04:05 MST 2006") }
	return fmt.Sprintf("cZxid = %#x\nctime = %s\nmZxid = %#x\nmtime = %s\npZxid = %#x\ncversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = %#x\ndataLength = %d\nnumChildren = %d\n",
		stat.Czxid, date(stat.Ctime), stat.Mzxid, date(stat.Mtime), stat.Pzxid, stat.Cversion, stat.Version, stat.Aversion, stat.EphemeralOwner, stat.DataLength, stat.NumChildren)
}

// wantedVersion is the version that a node must have; -1 is any.
func wantedVersion(args []string, i int) (int32, error) {
	if len(args) <= i {
		return -1, nil
	}
	n, err := strconv.ParseInt(args[i], 10, 32)
	if err != nil {
		return 0, &failure{exitUsage, fmt.Errorf("%s is not a version", args[i])}
	}
	return int32(n), nil
}

func (s *zookeeperShell) set(args []string) error {
	version, err := wantedVersion(args, 2)
	if err != nil {
		return err
	}
	stat, err := s.tree.Conn().Set(s.tree.Path(args[0]), []byte(args[1]), version)
	if err == nil {
		s.say(s.a.stderr, statText(stat))
	}
	return err
}

func (s *zookeeperShell) create(args []string) error {
	var flags int32
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-s":
			flags |= zk.FlagSequence
		case "-e":
			flags |= zk.FlagEphemeral
		default:
			return &failure{exitUsage, fmt.Errorf("%s: create knows -s and -e", args[0])}
		}
		args = args[1:]
	}
	if len(args) < 2 || len(args) > 3 {
		return &failure{exitUsage, errors.New("want create [-s] [-e] path data [acl]")}
	}
	acl := zk.WorldACL(zk.PermAll)
	if len(args) == 3 {
		var err error
		if acl, err = parseACL(args[2]); err != nil {
			return err
		}
	}
	made, err := s.tree.Conn().Create(s.tree.Path(args[0]), []byte(args[1]), flags, acl)
	if err == nil {
		s.say(s.a.stderr, "Created "+strings.TrimPrefix(made, s.tree.Path(""))+"\n")
	}
	return err
}

func (s *zookeeperShell) delete(args []string) error {
	version, err := wantedVersion(args, 1)
	if err != nil {
		return err
	}
	return s.tree.Conn().Delete(s.tree.Path(args[0]), version)
}

func (s *zookeeperShell) deleteAll(args []string) error {
	there, err := s.tree.Exists(args[0])
	if err == nil && !there {
		err = zk.ErrNoNode
	}
	if err != nil {
		return err
	}
	return s.tree.DeleteAll(args[0])
}

// aclLetters are the permissions in the order in which they are printed.
const aclLetters = "cdrwa"

func aclBits() map[rune]int32 {
	return map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}
}

// parseACL reads scheme:id:permissions, separated by commas.
func parseACL(list string) ([]zk.ACL, error) {
	var acl []zk.ACL
	for entry := range strings.SplitSeq(list, ",") {
		scheme, rest, _ := strings.Cut(entry, ":")
		last := strings.LastIndexByte(rest, ':')
		if last < 0 {
			return nil, &failure{exitUsage, fmt.Errorf("%s: want scheme:id:permissions", entry)}
		}
		var bits int32
		for _, letter := range rest[last+1:] {
			bit, ok := aclBits()[letter]
			if !ok {
				return nil, &failure{exitUsage, fmt.Errorf("%s: permissions are letters of %s", entry, aclLetters)}
			}
			bits |= bit
		}
		acl = append(acl, zk.ACL{Perms: bits, Scheme: scheme, ID: rest[:last]})
	}
	return acl, nil
}

func (s *zookeeperShell) getACL(args []string) error {
	acl, _, err := s.tree.Conn().GetACL(s.tree.Path(args[0]))
	if err != nil {
		return err
	}
	for _, entry := range acl {
		letters := ""
		for _, letter := range aclLetters {
			if entry.Perms&aclBits()[letter] != 0 {
				letters += string(letter)
			}
		}
		s.say(s.a.stdout, fmt.Sprintf("'%s,'%s\n: %s\n", entry.Scheme, entry.ID, letters))
	}
	return nil
}

func (s *zookeeperShell) setACL(args []string) error {
	acl, err := parseACL(args[1])
	if err != nil {
		return err
	}
	stat, err := s.tree.Conn().SetACL(s.tree.Path(args[0]), acl, -1)
	if err == nil {
		s.say(s.a.stderr, statText(stat))
	}
	return err
}

func (s *zookeeperShell) sync(args []string) error {
	_, err := s.tree.Conn().Sync(s.tree.Path(args[0]))
	if err == nil {
		s.say(s.a.stdout, "Sync returned 0\n")
	}
	return err
}
