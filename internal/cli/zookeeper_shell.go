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
	"sync/atomic"
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
			s := &zookeeperShell{a: a, ctx: ctx, server: args[0], tree: tree}
			s.printWatches.Store(true)
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
	path     shellPath
	do       func(s *zookeeperShell, args []string) error
	offline  bool // needs no session
}

// shellPath is which argument of a command is a path of the tree.
type shellPath int

const (
	pathFirst      shellPath = iota
	pathAfterFlags           // the first that does not begin with -
	pathLast
	pathNone
)

// shellVerbs are the commands. Those that say something about the lines before are known to interact alone.
func shellVerbs() map[string]shellVerb {
	return map[string]shellVerb{
		"ls":           {"path [watch]", 1, 2, pathFirst, (*zookeeperShell).list, false},
		"ls2":          {"path [watch]", 1, 2, pathFirst, (*zookeeperShell).listAndStat, false},
		"get":          {"path [watch]", 1, 2, pathFirst, (*zookeeperShell).get, false},
		"stat":         {"path [watch]", 1, 2, pathFirst, (*zookeeperShell).stat, false},
		"set":          {"path data [version]", 2, 3, pathFirst, (*zookeeperShell).set, false},
		"create":       {"[-s] [-e] path data [acl]", 2, 5, pathAfterFlags, (*zookeeperShell).create, false},
		"delete":       {"path [version]", 1, 2, pathFirst, (*zookeeperShell).delete, false},
		"rmr":          {"path", 1, 1, pathFirst, (*zookeeperShell).deleteAll, false},
		"getAcl":       {"path", 1, 1, pathFirst, (*zookeeperShell).getACL, false},
		"setAcl":       {"path acl", 2, 2, pathFirst, (*zookeeperShell).setACL, false},
		"sync":         {"path", 1, 1, pathFirst, (*zookeeperShell).sync, false},
		"setquota":     {"-n|-b val path", 3, 3, pathLast, (*zookeeperShell).setQuota, false},
		"listquota":    {"path", 1, 1, pathFirst, (*zookeeperShell).listQuota, false},
		"delquota":     {"[-n|-b] path", 1, 2, pathLast, (*zookeeperShell).deleteQuota, false},
		"addauth":      {"scheme auth", 1, 2, pathNone, (*zookeeperShell).addAuth, false},
		"printwatches": {"on|off", 0, 1, pathNone, (*zookeeperShell).watchesPrinted, true},
		"connect":      {"host:port", 0, 1, pathNone, (*zookeeperShell).connect, true},
		"close":        {"", 0, 0, pathNone, (*zookeeperShell).disconnect, false},
	}
}

func shellHelp() string {
	var b strings.Builder
	verbs := shellVerbs()
	for _, name := range sortedKeys(verbs) {
		fmt.Fprintf(&b, "\t%s\n", strings.TrimSpace(name+" "+verbs[name].usage))
	}
	return b.String() + "\thistory\n\tredo cmdno\n\thelp\n\tquit\n"
}

// zookeeperShell is a session and what came of it.
type zookeeperShell struct {
	a      *app
	ctx    context.Context
	server string           // the last that it was told to connect to
	tree   *zkconsumer.Tree // nil: closed
	lines  []string         // what was typed, for history and redo

	printWatches atomic.Bool
	watches      sync.WaitGroup
	print        sync.Mutex // events come at any time
}

// close ends the session, and with it the watches.
func (s *zookeeperShell) close() {
	if s.tree != nil {
		s.tree.Close()
		s.tree = nil
	}
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
			if done, err := s.line(line); done {
				return nil
			} else if err != nil {
				s.say(s.a.stderr, err.Error()+"\n")
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return &failure{exitInterrupted, errInterrupted}
		}
	}
}

// line does what a line says. It is done after quit.
func (s *zookeeperShell) line(line string) (done bool, err error) {
	args, err := shellWords(line)
	if err != nil || len(args) == 0 {
		return false, err
	}
	s.lines = append(s.lines, line)
	switch args[0] {
	case "quit":
		return true, nil
	case "help":
		s.say(s.a.stderr, shellHelp())
		return false, nil
	case "history":
		s.history()
		return false, nil
	case "redo":
		return s.redo(args[1:])
	}
	return false, s.run(args)
}

// historyLines is how many lines before the last history tells.
const historyLines = 10

func (s *zookeeperShell) history() {
	for i := max(0, len(s.lines)-1-historyLines); i < len(s.lines); i++ {
		s.say(s.a.stdout, fmt.Sprintf("%d - %s\n", i, s.lines[i]))
	}
}

// redo does an earlier line again, which stands in the history in place of this one.
func (s *zookeeperShell) redo(args []string) (done bool, err error) {
	if len(args) != 1 {
		return false, &failure{exitUsage, errors.New("want redo cmdno")}
	}
	n, err := javaInt(args[0], 32)
	last := len(s.lines) - 1
	switch {
	case err != nil:
		return false, err
	case n < 0 || n >= int64(last):
		s.say(s.a.stdout, "Command index out of range\n")
		return false, nil
	}
	again := s.lines[n]
	if words, _ := shellWords(again); words[0] == "redo" {
		s.say(s.a.stdout, "No redoing redos\n")
		return false, nil
	}
	s.lines = s.lines[:last]
	return s.line(again)
}

// javaInt reads a number, and fails as Java does.
func javaInt(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, javaFault("NumberFormatException", fmt.Sprintf("For input string: %q", text))
	}
	return n, nil
}

const commandFailed = "Command failed: java.lang."

// javaFault is what ZooKeeper's shell says of arguments that it cannot work with.
func javaFault(class, text string) error {
	return &failure{exitUsage, errors.New(commandFailed + class + ": " + text)}
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
	at := 0
	switch verb.path {
	case pathAfterFlags:
		for at < len(rest)-1 && strings.HasPrefix(rest[at], "-") {
			at++
		}
	case pathLast:
		at = len(rest) - 1
	}
	if s.tree == nil && !verb.offline {
		s.say(s.a.stdout, "Not connected\n")
		return nil
	}
	if verb.path == pathNone {
		return verb.do(s, rest)
	}
	if word := rest[at]; !strings.HasPrefix(word, "/") || word != "/" && strings.HasSuffix(word, "/") {
		return &failure{exitUsage, fmt.Errorf("%s is not a path: it begins with / and does not end with one", word)}
	}
	return s.explain(verb.do(s, rest), rest[at])
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
	root := s.tree.Path("")
	s.watches.Go(func() {
		e, ok := <-events
		if ok && e.Type != zk.EventNotWatching && s.printWatches.Load() {
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

// addAuth shows who the session is. One that fails has its connection closed by ZooKeeper.
func (s *zookeeperShell) addAuth(args []string) error {
	var auth []byte
	if len(args) > 1 {
		auth = []byte(args[1])
	}
	return s.tree.Conn().AddAuth(args[0], auth)
}

// watchesPrinted says whether the events of watches are told, or changes that.
func (s *zookeeperShell) watchesPrinted(args []string) error {
	if len(args) > 0 {
		s.printWatches.Store(args[0] == "on")
		return nil
	}
	state := "off"
	if s.printWatches.Load() {
		state = "on"
	}
	s.say(s.a.stdout, "printwatches is "+state+"\n")
	return nil
}

// connect begins a session anew, where it was or elsewhere.
func (s *zookeeperShell) connect(args []string) error {
	s.close()
	if len(args) > 0 {
		s.server = args[0]
	}
	tree, err := s.a.tree(s.ctx, s.server)
	if err == nil {
		s.tree = tree
	}
	return err
}

func (s *zookeeperShell) disconnect([]string) error {
	s.close()
	return nil
}
