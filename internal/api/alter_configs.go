package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
)

// alteration is what a request wants to change of one resource.
type alteration struct {
	kind    kmsg.ConfigResourceType
	name    string
	configs []alteredConfig
}

type alteredConfig struct {
	name  string
	value *string // nil = none was given
	op    kmsg.IncrementalAlterConfigOp
}

// errForController says that a change of settings is the controller's to decide.
var errForController = errors.New("the controller decides")

// saidError is a failure of Kafka's with the text that goes to the client.
type saidError struct {
	code *kerr.Error
	text string
}

func (e *saidError) Error() string { return e.text }
func (e *saidError) Unwrap() error { return e.code }

func invalidRequest(format string, args ...any) error {
	return &saidError{kerr.InvalidRequest, fmt.Sprintf(format, args...)}
}

func invalidConfig(format string, args ...any) error {
	return &saidError{kerr.InvalidConfig, fmt.Sprintf(format, args...)}
}

// decideHere answers what this node knows best about a request that alters settings: what is malformed, whether it has
// come to the broker that it is about, and the levels of its own log. Per alteration it returns what came of it, or
// errForController. Mirrors ConfigAdminManager.preprocess.
func (a *API) decideHere(r *server.Request, alterations []alteration, incremental, validateOnly bool) []error {
	errs := make([]error, len(alterations))
	for i, alt := range alterations {
		same := func(o alteration) bool { return o.kind == alt.kind && o.name == alt.name }
		if slices.ContainsFunc(alterations[:i], same) || slices.ContainsFunc(alterations[i+1:], same) {
			errs[i] = invalidRequest("Each resource must appear at most once.")
			continue
		}
		errs[i] = a.decideOne(r, alt, incremental, validateOnly)
	}
	return errs
}

func (a *API) decideOne(r *server.Request, alt alteration, incremental, validateOnly bool) error {
	var null []string
	for i, c := range alt.configs {
		if slices.ContainsFunc(alt.configs[:i], func(o alteredConfig) bool { return o.name == c.name }) {
			return invalidRequest("Error due to duplicate config keys")
		}
		if c.value == nil && (!incremental || c.op != kmsg.IncrementalAlterConfigOpDelete) {
			null = append(null, c.name)
		}
	}
	if null != nil {
		return invalidRequest("Null value not supported for : %s", strings.Join(null, ", "))
	}
	switch alt.kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return errForController
	case kmsg.ConfigResourceTypeBroker:
		if alt.name != "" && r.Conn.Kind() == server.Broker {
			if err := a.checkNodeID(alt.name); err != nil {
				return err
			}
		}
		return errForController
	case kmsg.ConfigResourceTypeBrokerLogger:
		if incremental {
			return a.alterLogger(alt, validateOnly)
		}
	}
	return invalidRequest("Unknown resource type %d", alt.kind)
}

// checkNodeID makes sure that a resource is this node.
func (a *API) checkNodeID(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return invalidRequest("Node id must be an integer, but it is: %s", name)
	}
	if int32(id) != a.o.NodeID {
		return invalidRequest("Unexpected broker id, expected %d, but received %s", a.o.NodeID, name)
	}
	return nil
}

// relayConfigs sends the alterations that are the controller's to it, and puts its verdicts where errs says so. part makes
// the request for them, and read takes the verdicts out of an answer, in order.
func (a *API) relayConfigs(r *server.Request, errs []error, part kmsg.Request, read func(kmsg.Response) []error) {
	if !slices.Contains(errs, errForController) {
		return
	}
	part.SetVersion(r.Body.GetVersion())
	ctx, cancel := a.within(r, 0)
	defer cancel()
	verdicts := read(a.askController(ctx, r, part))
	for i, err := range errs {
		if err != errForController {
			continue
		}
		errs[i] = kerr.UnknownServerError // fewer verdicts than were asked for
		if len(verdicts) > 0 {
			errs[i], verdicts = verdicts[0], verdicts[1:]
		}
	}
}

// askController returns the active controller's answer to a request in the name of r's client, or the failure to get it
// in the same form.
func (a *API) askController(ctx context.Context, r *server.Request, req kmsg.Request) kmsg.Response {
	var resp kmsg.Response
	var err error
	if r.Conn.Kind() == server.Controller {
		resp, err = a.o.Local(ctx, req, r.Conn.Principal(), r.ClientID())
	} else {
		resp, err = a.o.Uplink.Forward(ctx, req, senderOf(r))
	}
	if err != nil {
		return failure(req, timedOut(err))
	}
	return resp
}

// verdict is the error that a resource's answer carries.
func verdict(code int16, message *string) error {
	known, _ := kerr.ErrorForCode(code).(*kerr.Error)
	if code == 0 || known == nil {
		return nil
	}
	if message == nil {
		return known
	}
	return &saidError{known, *message}
}
