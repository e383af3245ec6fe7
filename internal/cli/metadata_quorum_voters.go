package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/vfs"
)

// quorumDoor is where requests about the metadata quorum go: to the cluster's brokers, which pass them on, or to the controller
// that leads.
type quorumDoor struct {
	kmsg.Requestor
	clusterID func(ctx context.Context) (string, error)
}

// quorum is the way to the quorum through brokers.
func (cl *client) quorum() quorumDoor {
	return quorumDoor{cl, func(ctx context.Context) (string, error) {
		m, err := cl.admin.BrokerMetadata(ctx)
		return m.Cluster, err
	}}
}

// atQuorum runs do with a way to the quorum: through brokers, or past them when controllers are named.
func (a *app) atQuorum(ctx context.Context, c *clusterFlags, controllers string, do func(ctx context.Context, door quorumDoor) error) error {
	if controllers == "" {
		return a.on(ctx, c, func(ctx context.Context, cl *client) error { return do(ctx, cl.quorum()) })
	}
	if c.bootstrap != "" {
		return &failure{exitUsage, errors.New("--bootstrap-server and --bootstrap-controller cannot be given together")}
	}
	leader := ""
	if err := a.atController(ctx, c, controllers, func(ctx context.Context, door quorumDoor) (err error) {
		leader, err = door.leader(ctx)
		return err
	}); err != nil {
		return err
	}
	return a.atController(ctx, c, leader, do)
}

// atController runs do with a way to the first of some controllers that answers.
func (a *app) atController(ctx context.Context, c *clusterFlags, controllers string, do func(ctx context.Context, door quorumDoor) error) error {
	at := *c
	at.bootstrap, at.controllers = controllers, true
	return a.on(ctx, &at, func(ctx context.Context, cl *client) error {
		var errs []error
		for _, seed := range cl.SeedBrokers() {
			if _, err := seed.Request(ctx, kmsg.NewPtrApiVersionsRequest()); err != nil {
				errs = append(errs, err)
				continue
			}
			return do(ctx, quorumDoor{seed, func(ctx context.Context) (string, error) {
				req := kmsg.NewPtrDescribeClusterRequest()
				req.EndpointType = 2
				resp, err := req.RequestWith(ctx, seed)
				if err != nil {
					return "", err
				}
				return resp.ClusterID, kerr.ErrorForCode(resp.ErrorCode)
			}})
		}
		return errors.Join(errs...)
	})
}

// controllerWait is how long a tool that can do without the active controller waits for it. An election takes half of that.
const controllerWait = 3 * time.Second

// errNoController says that brokers answer and the active controller does not.
var errNoController = errors.New("no controller is active, or it does not answer: a majority of the controllers has to run and reach each other")

// ofController asks what only the active controller answers. The error is errNoController if it does not within controllerWait.
func ofController(ctx context.Context, ask func(context.Context) error) error {
	asked, cancel := context.WithTimeout(ctx, controllerWait)
	defer cancel()
	err := ask(asked)
	if err != nil && asked.Err() != nil && ctx.Err() == nil {
		return errNoController
	}
	return err
}

// describe asks for the state of the quorum.
func (d quorumDoor) describe(ctx context.Context) (*kmsg.DescribeQuorumResponse, *kmsg.DescribeQuorumResponseTopicPartition, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	var resp *kmsg.DescribeQuorumResponse
	err := ofController(ctx, func(ctx context.Context) (err error) {
		resp, err = req.RequestWith(ctx, d)
		return err
	})
	if errors.Is(err, errNoController) {
		err = fmt.Errorf("%w; `moldau metadata-quorum describe --status --bootstrap-controller host:port,...` asks them themselves", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, nil, refused("describe the quorum", err, text(resp.ErrorMessage))
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, nil, errors.New("describe the quorum: the answer has no partition")
	}
	return resp, &resp.Topics[0].Partitions[0], nil
}

// leader returns the address of the controller that leads.
func (d quorumDoor) leader(ctx context.Context) (string, error) {
	resp, p, err := d.describe(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range resp.Nodes {
		if n.NodeID == p.LeaderID && len(n.Listeners) > 0 {
			return net.JoinHostPort(n.Listeners[0].Host, strconv.Itoa(int(n.Listeners[0].Port))), nil
		}
	}
	return "", fmt.Errorf("the controllers have no leader now (the last epoch is %d)", p.LeaderEpoch)
}

// newController is what the configuration and the data directory of a controller say that it is.
type newController struct {
	ID        kafka.NodeID `json:"id"`
	Directory string       `json:"directoryId"`
	Endpoints []string     `json:"endpoints"`

	dir       kafka.DirID
	listeners []kmsg.AddRaftVoterRequestListener
}

// readController mirrors MetadataQuorumCommand.handleAddController.
func (a *app) readController(file string) (newController, error) {
	cfg, err := a.configured(file)
	if err != nil {
		return newController{}, err
	}
	if !cfg.Roles.Controller {
		return newController{}, &failure{exitConfig, fmt.Errorf("%s: process.roles does not name controller", file)}
	}
	n := newController{ID: cfg.ID}
	path := filepath.Join(cfg.Storage.MetadataDir, metaProperties)
	text, err := vfs.ReadFile(vfs.NewOS(), path)
	if err != nil {
		return n, fmt.Errorf("the directory id of the controller is in its data directory; run this on its machine, after its first start: %w", err)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	meta, err := loader.LoadBytes(text)
	if err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	n.Directory = meta.GetString("directory.id", "")
	if n.dir, err = kafka.ParseUUID(n.Directory); err != nil {
		return n, fmt.Errorf("%s has no directory.id: %w", path, err)
	}
	if id, renamed, err := quorum.VoterDirID(vfs.NewOS(), cfg.Storage.MetadataDir); err != nil {
		return n, err
	} else if renamed {
		n.dir, n.Directory = id, id.String()
	}
	for _, l := range cfg.Network.Listeners {
		if !l.Controller {
			continue
		}
		one, err := controllerListener(l)
		if err != nil {
			return n, &failure{exitConfig, fmt.Errorf("%s: %w", file, err)}
		}
		n.listeners = append(n.listeners, one)
		n.Endpoints = append(n.Endpoints, one.Name+"://"+net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port))))
	}
	return n, nil
}

func controllerListener(l config.Listener) (kmsg.AddRaftVoterRequestListener, error) {
	one := kmsg.NewAddRaftVoterRequestListener()
	one.Name, one.Host, one.Port = l.Name, l.Advertised.Host, uint16(l.Advertised.Port)
	if one.Port == 0 {
		return one, fmt.Errorf("listener %s has no port: set it in listeners", l.Name)
	}
	if one.Host != "" {
		return one, nil
	}
	if ip := net.ParseIP(l.Host); l.Host != "" && (ip == nil || !ip.IsUnspecified()) {
		one.Host = l.Host
		return one, nil
	}
	name, err := os.Hostname() // what the node takes, too
	one.Host = name
	return one, err
}

// voterFlags are those of add-controller and remove-controller.
type voterFlags struct {
	id        int32
	directory string
	dryRun    bool
}

func (a *app) addController(ctx context.Context, c *clusterFlags, controllers string, f voterFlags) error {
	if c.configFile == "" {
		return &failure{exitUsage, errors.New("add-controller needs --command-config with the configuration file of the controller that is added")}
	}
	n, err := a.readController(c.configFile)
	if err != nil {
		return err
	}
	client := *c
	client.configFile = "" // that of a node, not of a client
	if !f.dryRun {
		err = a.atQuorum(ctx, &client, controllers, func(ctx context.Context, door quorumDoor) error {
			req := kmsg.NewPtrAddRaftVoterRequest()
			req.TimeoutMillis, req.VoterID, req.VoterDirectoryID, req.Listeners, req.AckWhenCommitted = 30_000, n.ID, n.dir, n.listeners, true
			resp, err := req.RequestWith(ctx, door)
			if err != nil {
				return err
			}
			return refused("add controller "+strconv.Itoa(int(n.ID)), kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
		})
	}
	if err != nil {
		return err
	}
	return a.result(c, n, func(w io.Writer) {
		did := "Added"
		if f.dryRun {
			did = "DRY RUN of adding"
		}
		fmt.Fprintf(w, "%s controller %d with directory id %s and endpoints: %s\n", did, n.ID, n.Directory, strings.Join(n.Endpoints, ", "))
	})
}

func (a *app) removeController(ctx context.Context, c *clusterFlags, controllers string, f voterFlags) error {
	dir, err := kafka.ParseUUID(f.directory)
	switch {
	case f.id < 0:
		return &failure{exitUsage, errors.New("remove-controller needs --controller-id and --controller-directory-id; describe --replication shows both")}
	case err != nil:
		return &failure{exitUsage, fmt.Errorf("--controller-directory-id %q: %w", f.directory, err)}
	}
	if !f.dryRun {
		err = a.atQuorum(ctx, c, controllers, func(ctx context.Context, door quorumDoor) error {
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.VoterID, req.VoterDirectoryID = f.id, dir
			resp, err := req.RequestWith(ctx, door)
			if err != nil {
				return err
			}
			return refused("remove controller "+strconv.Itoa(int(f.id)), kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
		})
	}
	if err != nil {
		return err
	}
	return a.result(c, map[string]any{"id": f.id, "directoryId": dir.String()}, func(w io.Writer) {
		did := "Removed "
		if f.dryRun {
			did = "DRY RUN of removing " // with two blanks, as Kafka prints it
		}
		fmt.Fprintf(w, "%s KRaft controller %d with directory id %s\n", did, f.id, dir)
	})
}
