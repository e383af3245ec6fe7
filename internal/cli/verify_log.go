package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"moldau/internal/commitlog"
	"moldau/internal/vfs"
)

// verifiedFile is what verify-log found in one file.
type verifiedFile struct {
	File          string `json:"file"`
	Bytes         int64  `json:"bytes"`
	Batches       int64  `json:"batches,omitempty"`
	FirstDamaged  *int64 `json:"firstDamagedOffset,omitempty"` // of a log file
	DamagedBytes  int64  `json:"damagedBytes,omitempty"`
	Damage        []hurt `json:"damage,omitempty"`
	UnfinishedEnd int64  `json:"unfinishedBytes,omitempty"`
	Unreadable    string `json:"unreadable,omitempty"`
	Fault         string `json:"fault,omitempty"` // of a file that is made anew from the log
	Spare         bool   `json:"spare,omitempty"` // nobody needs it, whatever its fault
}

// hurt is one damaged stretch of a log file.
type hurt struct {
	Position int64 `json:"position"`
	Bytes    int64 `json:"bytes"`
	From     int64 `json:"fromOffset"`
	To       int64 `json:"toOffset"` // the first that can be read again
}

// verifyLogCommand reads the files of a stopped node and tells which are damaged. Kafka has no such tool.
func (a *app) verifyLogCommand() *cobra.Command {
	c := &clusterFlags{}
	var running bool
	cmd := &cobra.Command{
		Use:   "verify-log DIR...",
		Short: "Look for damage in the files of a stopped node, and name the first damaged offset of each",
		Long: `Reads every file of the partitions in DIR, a directory of log.dirs or one partition's folder, and changes nothing.

Damaged records are lost unless there is another copy; indexes, snapshots and checkpoints are made anew from the log when the node
runs. Exit code 0: all is whole; 4: something is damaged or cannot be read.`,
		Example: "  moldau verify-log data\n  moldau verify-log --output json /var/lib/moldau/orders-0",
		Args:    usage(cobra.MinimumNArgs(1)),
		PreRunE: func(*cobra.Command, []string) error {
			if c.output != "text" && c.output != "json" {
				return &failure{exitUsage, fmt.Errorf("--output %s: want text or json", c.output)}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, dirs []string) error { return a.verifyLog(c, dirs, running) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.output, "output", "text", "how results look: `text or json`")
	flags.BoolVar(&running, "running", false, "read although a node uses the directory: what it is just writing can look damaged")
	return cmd
}

func (a *app) verifyLog(c *clusterFlags, dirs []string, running bool) error {
	disk := vfs.NewOS()
	files := []verifiedFile{} // not null in JSON
	var damaged, faulty int
	for _, dir := range dirs {
		logs, err := a.logsIn(disk, dir)
		if err != nil {
			return err
		}
		unlock, err := a.quiet(disk, logs.root, running)
		if err != nil {
			return err
		}
		clean, err := vfs.Exists(disk, filepath.Join(logs.root, ".kafka_cleanshutdown"))
		progress := a.progress(c.json(), dir, logs.bytes, byteUnit)
		for _, log := range logs.dirs {
			if err != nil {
				break
			}
			err = commitlog.Verify(disk, log, commitlog.VerifyOptions{
				Clean: clean,
				Read:  func(n int) { progress.add(int64(n)) },
				Each: func(f commitlog.Checked) {
					found := verified(f)
					switch {
					case len(found.Damage) > 0 || found.Unreadable != "":
						damaged++
					case found.Fault != "" && !found.Spare:
						faulty++
					}
					files = append(files, found)
				},
			})
		}
		progress.done()
		if err = errors.Join(err, unlock()); err != nil {
			return err
		}
	}
	err := a.result(c, files, func(w io.Writer) {
		for _, f := range files {
			f.print(w)
		}
		fmt.Fprintf(w, "%d files read, %d damaged, %d to be made anew\n", len(files), damaged, faulty)
	})
	if err == nil && damaged+faulty > 0 {
		return &failure{exitData, fmt.Errorf("%d of %d files are damaged, %d others are made anew from the log when the node runs", damaged, len(files), faulty)}
	}
	return err
}

func verified(f commitlog.Checked) verifiedFile {
	v := verifiedFile{File: f.Path, Bytes: f.Bytes, Batches: f.Batches, UnfinishedEnd: f.Unfinished, Fault: f.Fault, Spare: f.Spare}
	if f.Unreadable != nil {
		v.Unreadable = bare(f.Unreadable, f.Path).Error()
	}
	for i, d := range f.Damage {
		if i == 0 {
			v.FirstDamaged = &f.Damage[0].From
		}
		v.DamagedBytes += d.Bytes
		v.Damage = append(v.Damage, hurt{Position: d.Position, Bytes: d.Bytes, From: d.From, To: d.To})
	}
	return v
}

// bare is an error without the path, which the caller names, if it is one of the disk about that file.
func bare(err error, path string) error {
	var at *fs.PathError
	if errors.As(err, &at) && at.Path == path {
		return at.Err
	}
	return err
}

// print says what is wrong with a file, nothing if all is well.
func (v verifiedFile) print(w io.Writer) {
	for _, d := range v.Damage {
		to := fmt.Sprintf("the next that can be read is %d", d.To)
		if d.Position+d.Bytes == v.Bytes {
			to = "nothing behind it in this file can be read"
		}
		fmt.Fprintf(w, "%s: damaged at offset %d: %d bytes at position %d; %s\n", v.File, d.From, d.Bytes, d.Position, to)
	}
	if v.Unreadable != "" {
		fmt.Fprintf(w, "%s: cannot be read: %s\n", v.File, v.Unreadable)
	}
	if v.UnfinishedEnd > 0 {
		fmt.Fprintf(w, "%s: the last %d bytes are no whole batch, as after a crash; the next start cuts them off\n", v.File, v.UnfinishedEnd)
	}
	switch {
	case v.Spare:
		fmt.Fprintf(w, "%s: %s; which does no harm: a newer one is whole, and is used\n", v.File, v.Fault)
	case v.Fault != "":
		fmt.Fprintf(w, "%s: %s; it is made anew when the node runs\n", v.File, v.Fault)
	}
}

// logsIn says which logs lie in a directory, or that it is one's folder.
func (a *app) logsIn(disk vfs.FS, dir string) (found struct {
	root  string // the directory of log.dirs
	dirs  []string
	bytes int64
}, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return found, err
	}
	entry, err := disk.Stat(dir)
	if err != nil {
		return found, &failure{exitUsage, fmt.Errorf("%s: %w", dir, bare(err, dir))}
	}
	if !entry.Dir {
		return found, &failure{exitUsage, fmt.Errorf("%s is a file: name the folder that it lies in, or a directory of log.dirs", dir)}
	}
	entries, err := disk.List(dir)
	if err != nil {
		return found, err
	}
	found.root = dir
	for _, e := range entries {
		if !e.Dir && filepath.Ext(e.Name) == ".log" {
			found.root, found.dirs = filepath.Dir(dir), []string{dir}
		}
	}
	if len(found.dirs) == 0 {
		for _, e := range entries {
			if _, err := commitlog.ParseDir(e.Name); e.Dir && err == nil {
				found.dirs = append(found.dirs, filepath.Join(dir, e.Name))
			}
		}
	}
	if len(found.dirs) == 0 {
		return found, &failure{exitUsage, fmt.Errorf("%s holds no partition: name a directory of log.dirs, or one partition's folder", dir)}
	}
	for _, log := range found.dirs {
		entries, err := disk.List(log)
		if err != nil {
			return found, err
		}
		for _, e := range entries {
			found.bytes += e.Size
		}
	}
	return found, nil
}

// quiet makes sure that no node uses the directory, until it is given back.
func (a *app) quiet(disk vfs.FS, root string, running bool) (unlock func() error, err error) {
	none := func() error { return nil }
	path := filepath.Join(root, ".lock")
	if exists, err := vfs.Exists(disk, path); err != nil || !exists || running {
		return none, err
	}
	lock, err := disk.Lock(path)
	if errors.Is(err, vfs.ErrLocked) {
		return none, &failure{exitData, fmt.Errorf("a node uses %s: stop it, or read along with --running", root)}
	}
	if err != nil {
		return none, err
	}
	return lock.Close, nil
}
