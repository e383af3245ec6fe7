package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// storageCommand is Kafka's kafka-storage.sh (StorageTool), for what has a meaning here: a node formats its directories
// by itself when it starts, so format only serves to choose the cluster id.
func (a *app) storageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Prepare or inspect data directories",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &failure{exitUsage, errors.New("storage: want format, random-uuid or info")}
		},
	}
	cmd.AddCommand(a.formatCommand(), a.infoCommand(), &cobra.Command{
		Use:   "random-uuid",
		Short: "Print a new id, for a cluster or a directory",
		Args:  usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(a.stdout, kafka.NewUUID())
			return nil
		},
	})
	return cmd
}

// formatFlags are those of StorageTool's format.
type formatFlags struct {
	config, clusterID, release, controllers string
	ignoreFormatted, standalone, none       bool
	features, scram                         []string
}

func (a *app) formatCommand() *cobra.Command {
	var f formatFlags
	cmd := &cobra.Command{
		Use:     "format",
		Short:   "Make the data directories of a configuration part of a cluster",
		Example: "  moldau storage format -t \"$(moldau storage random-uuid)\" -c config/server.properties",
		Args:    usage(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.format(f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "the configuration `file`; without it the built-in settings")
	flags.StringVarP(&f.clusterID, "cluster-id", "t", "", "the `id` of the cluster, as random-uuid prints it")
	flags.BoolVarP(&f.ignoreFormatted, "ignore-formatted", "g", false, "leave directories alone that are formatted already")
	flags.BoolVarP(&f.standalone, "standalone", "s", false, "the node is a cluster of its own")
	flags.StringVarP(&f.release, "release-version", "r", "", "the `release` whose metadata.version the cluster starts with")
	flags.StringArrayVarP(&f.features, "feature", "f", nil, "the level a feature starts with, as `name=level`")
	flags.StringArrayVarP(&f.scram, "add-scram", "S", nil, "not served yet")
	flags.StringVarP(&f.controllers, "initial-controllers", "I", "", "refused: controllers find each other by controller.quorum.bootstrap.servers")
	flags.BoolVarP(&f.none, "no-initial-controllers", "N", false, "the node joins the controllers that there are; nothing is written for it")
	return cmd
}

func (a *app) format(f formatFlags) error {
	if f.clusterID == "" {
		return &failure{exitUsage, errors.New("--cluster-id/-t is required; `moldau storage random-uuid` makes one")}
	}
	if _, err := kafka.ParseUUID(f.clusterID); err != nil {
		return &failure{exitUsage, fmt.Errorf("--cluster-id: %w", err)}
	}
	cfg, err := a.configured(f.config)
	if err != nil {
		return err
	}
	levels, err := formatLevels(f, cfg)
	if err != nil {
		return &failure{exitUsage, err}
	}
	disk := vfs.NewOS()
	dirs := directories(cfg)
	var fresh []string
	for _, dir := range dirs {
		switch _, err := disk.Stat(filepath.Join(dir, metaProperties)); {
		case errors.Is(err, fs.ErrNotExist):
			fresh = append(fresh, dir)
		case err != nil:
			return err
		case !f.ignoreFormatted:
			return fmt.Errorf("%s is already formatted; use --ignore-formatted to leave it alone and format the others", dir)
		}
	}
	store, err := storage.OpenDirectories(storage.Options{
		FS: disk, Dirs: dirs, NodeID: cfg.ID, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return cured(err, cfg)
	}
	if slices.Contains(fresh, cfg.Storage.MetadataDir) {
		err = writeLevels(disk, cfg.Storage.MetadataDir, levels)
	}
	if err == nil {
		err = store.Format(f.clusterID) // last: the directory counts as formatted from then on
	}
	for _, d := range store.Directories() {
		err = errors.Join(err, d.Err())
	}
	if err = errors.Join(err, store.Stop(false)); err != nil {
		return err
	}
	if len(fresh) == 0 {
		fmt.Fprintln(a.stdout, "All of the log directories are already formatted.")
	}
	for _, dir := range fresh {
		kind := "data"
		if dir == cfg.Storage.MetadataDir {
			kind = "metadata"
		}
		name, _ := metadata.LevelName(levels[0].FeatureLevel)
		fmt.Fprintf(a.stdout, "Formatting %s directory %s with metadata.version %s.\n", kind, dir, name)
	}
	return nil
}

const metaProperties = "meta.properties"

func (a *app) infoCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "info",
		Short:   "Tell what the data directories of a configuration are",
		Example: "  moldau storage info -c config/server.properties",
		Args:    usage(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.info(file) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration `file`; without it the built-in settings")
	return cmd
}

// info prints what StorageTool.infoCommand does, and fails if there are problems.
func (a *app) info(file string) error {
	cfg, err := a.configured(file)
	if err != nil {
		return err
	}
	disk := vfs.NewOS()
	var found, problems []string
	shown := map[string]string{}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	for _, dir := range directories(cfg) {
		if entry, err := disk.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, dir+" does not exist")
			continue
		} else if err == nil && !entry.Dir {
			problems = append(problems, dir+" is not a directory")
			continue
		}
		found = append(found, dir)
		text, err := vfs.ReadFile(disk, filepath.Join(dir, metaProperties))
		if errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, dir+" is not formatted.")
			continue
		}
		var meta *properties.Properties
		if err == nil {
			meta, err = loader.LoadBytes(text)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s cannot be read: %v", filepath.Join(dir, metaProperties), err))
			continue
		}
		if own := meta.GetString("node.id", ""); own != fmt.Sprint(cfg.ID) {
			problems = append(problems, fmt.Sprintf("%s belongs to node %s, but node.id is %d", dir, own, cfg.ID))
		}
		if cluster, have := meta.GetString("cluster.id", ""), shown["cluster.id"]; have != "" && have != cluster {
			problems = append(problems, fmt.Sprintf("%s belongs to cluster %s, the ones before it to %s", dir, cluster, have))
		}
		if len(shown) == 0 {
			shown = meta.Map()
		}
	}
	a.listed("Found log directories:", found)
	if len(shown) > 0 {
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(shown)) {
			pairs = append(pairs, key+"="+shown[key])
		}
		fmt.Fprintf(a.stdout, "Found metadata: {%s}\n\n", strings.Join(pairs, ", "))
	}
	a.listed("Found problems:", problems)
	if len(problems) > 0 {
		return errors.New("not all directories are in order")
	}
	return nil
}

func (a *app) listed(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, title)
	for _, line := range lines {
		fmt.Fprintln(a.stdout, "  "+line)
	}
	fmt.Fprintln(a.stdout)
}

// configured reads a configuration for a tool that needs only its directories.
func (a *app) configured(file string) (config.Node, error) {
	var files []string
	if file != "" {
		files = append(files, file)
	}
	loaded, _, err := a.readConfig(files, nil)
	if err != nil {
		return config.Node{}, err
	}
	return loaded.Node(), nil
}

// directories are all that carry meta.properties.
func directories(cfg config.Node) []string {
	dirs := slices.Clone(cfg.Storage.Dirs)
	if !slices.Contains(dirs, cfg.Storage.MetadataDir) {
		dirs = append(dirs, cfg.Storage.MetadataDir)
	}
	return dirs
}
