package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configFlags are those of ConfigCommand.
type configFlags struct {
	alter, describe, all, entityDefault bool
	types, names                        []string
	add, addFile, del                   string
}

// configEntity is what settings belong to. An empty name is the default of the kind.
type configEntity struct {
	kind  string // singular, as it is printed
	of    kmsg.ConfigResourceType
	name  string
	named bool // false: all of the kind
}

// configKind is a value of --entity-type, and the flag that stands for one with a name.
type configKind struct {
	entityType, flag, singular string
	of                         kmsg.ConfigResourceType
}

var configKinds = []configKind{
	{"topics", "topic", "topic", kmsg.ConfigResourceTypeTopic},
	{"brokers", "broker", "broker", kmsg.ConfigResourceTypeBroker},
	{"broker-loggers", "broker-logger", "broker-logger", kmsg.ConfigResourceTypeBrokerLogger},
	{"client-metrics", "client-metrics", "client-metric", kmsg.ConfigResourceTypeClientMetrics},
	{"groups", "group", "group", kmsg.ConfigResourceTypeGroupConfig},
}

// quotaKinds are what Kafka keeps quotas and credentials of, which are not settings of a resource.
func quotaKinds() []string { return []string{"user", "client", "ip"} }

// configsCommand is Kafka's kafka-configs.sh (ConfigCommand), for topics, brokers and what else has no principal.
func (a *app) configsCommand() *cobra.Command {
	var f configFlags
	cmd, c := a.tool("configs", "Show and change settings of topics and brokers",
		"  moldau configs --describe --topic orders\n"+
			"  moldau configs --alter --topic orders --add-config 'retention.ms=3600000,cleanup.policy=[compact,delete]'\n"+
			"  moldau configs --describe --broker 1 --all", nil)
	flags := cmd.Flags()
	flags.BoolVar(&f.describe, "describe", false, "show the settings that were changed")
	flags.BoolVar(&f.all, "all", false, "show every setting")
	flags.BoolVar(&f.alter, "alter", false, "change settings")
	flags.StringArrayVar(&f.types, "entity-type", nil, "`what` the settings belong to: topics, brokers, broker-loggers, client-metrics or groups")
	flags.StringArrayVar(&f.names, "entity-name", nil, "the `name` of it")
	flags.BoolVar(&f.entityDefault, "entity-default", false, "the default of all brokers")
	for _, kind := range configKinds {
		flags.String(kind.flag, "", "the same as --entity-type "+kind.entityType+" --entity-name `name`")
	}
	flags.Bool("broker-defaults", false, "the same as --entity-type brokers --entity-default")
	for _, of := range quotaKinds() {
		flags.String(of, "", "settings of this "+of+", which this version does not serve")
		flags.Bool(of+"-defaults", false, "the same of all of them")
	}
	flags.StringVar(&f.add, "add-config", "", "`settings` to set: k1=v1,k2=[v2,v3]")
	flags.StringVar(&f.addFile, "add-config-file", "", "a `file` of settings to set")
	flags.StringVar(&f.del, "delete-config", "", "`keys` to set back: k1,k2")
	flags.Bool("force", false, "taken for Kafka's sake: nothing is asked here")
	onlyBrokers(flags)
	c.byZooKeeper(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		action, err := exactlyOne(flags, "describe", "alter")
		if err == nil {
			err = onlyWith(flags, action, map[string][]string{"add-config": {"alter"}, "add-config-file": {"alter"}, "delete-config": {"alter"}, "all": {"describe"}})
		}
		if err != nil {
			return err
		}
		entity, err := f.entity(flags)
		if err != nil {
			return &failure{exitUsage, err}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error {
			if f.alter {
				return a.alterConfigs(ctx, cl, c, f, entity)
			}
			return a.describeConfigs(ctx, cl, c, f, entity)
		})
	}
	return cmd
}

// entity is what the flags name.
func (f configFlags) entity(flags *pflag.FlagSet) (configEntity, error) {
	for _, of := range quotaKinds() {
		if flags.Changed(of) || flags.Changed(of+"-defaults") || slices.Contains(f.types, of+"s") {
			return configEntity{}, fmt.Errorf("%ss have no settings yet: quotas and SCRAM credentials are not served by this version", of)
		}
	}
	var found []configEntity
	for _, kind := range configKinds {
		if flags.Changed(kind.flag) {
			name, _ := flags.GetString(kind.flag)
			found = append(found, configEntity{kind.singular, kind.of, name, true})
		}
	}
	if flags.Changed("broker-defaults") {
		found = append(found, configEntity{"broker", kmsg.ConfigResourceTypeBroker, "", true})
	}
	for _, entityType := range f.types {
		i := slices.IndexFunc(configKinds, func(k configKind) bool { return k.entityType == entityType })
		switch {
		case i < 0:
			return configEntity{}, fmt.Errorf("--entity-type %s: want topics, brokers, broker-loggers, client-metrics or groups", entityType)
		}
		e := configEntity{kind: configKinds[i].singular, of: configKinds[i].of}
		switch {
		case f.entityDefault && e.of != kmsg.ConfigResourceTypeBroker:
			return e, errors.New("--entity-default goes with --entity-type brokers")
		case f.entityDefault:
			e.named = true
		case len(f.names) > 0:
			e.name, e.named = f.names[0], true
		}
		found = append(found, e)
	}
	if len(found) != 1 {
		return configEntity{}, errors.New("want exactly one of --entity-type, --topic, --broker, --broker-defaults, --broker-logger, --client-metrics, --group")
	}
	e := found[0]
	switch {
	case f.alter && !e.named:
		return e, errors.New("--alter needs --entity-name or --entity-default")
	case e.named && e.name != "" && (e.of == kmsg.ConfigResourceTypeBroker || e.of == kmsg.ConfigResourceTypeBrokerLogger):
		if _, err := strconv.ParseInt(e.name, 10, 32); err != nil {
			return e, fmt.Errorf("the name of a broker is its node.id, not %q", e.name)
		}
	}
	return e, nil
}

// unserved says that a cluster keeps no settings of this kind.
func (e configEntity) unserved() error {
	return fmt.Errorf("this cluster keeps no settings of %ss", e.kind)
}

// describedConfig is a setting as it is shown.
type describedConfig struct {
	Name      string            `json:"name"`
	Value     *string           `json:"value"`
	Source    string            `json:"source"`
	Sensitive bool              `json:"sensitive"`
	ReadOnly  bool              `json:"readOnly"`
	Synonyms  []describedSource `json:"synonyms"`
}

type describedSource struct {
	Source string  `json:"source"`
	Name   string  `json:"name"`
	Value  *string `json:"value"`
}

type describedEntity struct {
	Type    string            `json:"type"`
	Name    string            `json:"name"`
	Configs []describedConfig `json:"configs"`
}

func (a *app) describeConfigs(ctx context.Context, cl *client, c *clusterFlags, f configFlags, entity configEntity) error {
	names, err := cl.entityNames(ctx, entity)
	if err != nil {
		return err
	}
	entities := make([]describedEntity, 0, len(names))
	for _, name := range names {
		configs, err := cl.describeConfig(ctx, entity, name, f.all)
		if err != nil {
			return err
		}
		entities = append(entities, describedEntity{entity.kind, name, configs})
	}
	return a.result(c, entities, func(w io.Writer) {
		for _, e := range entities {
			if c.zookeeper != "" {
				settings := make([]string, len(e.Configs))
				for i, config := range e.Configs {
					settings[i] = config.Name + "=" + orNullText(config.Value)
				}
				fmt.Fprintf(w, "Configs for %s are %s\n", entity.asBefore(e.Name), strings.Join(settings, ","))
				continue
			}
			which := "Dynamic"
			if f.all {
				which = "All"
			}
			if e.Name == "" {
				fmt.Fprintf(w, "Default configs for %ss in the cluster are:\n", entity.kind)
			} else {
				fmt.Fprintf(w, "%s configs for %s %s are:\n", which, entity.kind, e.Name)
			}
			for _, config := range e.Configs {
				synonyms := make([]string, len(config.Synonyms))
				for i, s := range config.Synonyms {
					synonyms[i] = s.Source + ":" + s.Name + "=" + orNullText(s.Value)
				}
				fmt.Fprintf(w, "  %s=%s sensitive=%t synonyms={%s}\n", config.Name, orNullText(config.Value), config.Sensitive, strings.Join(synonyms, ", "))
			}
		}
	})
}

func orNullText(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// entityNames are the entities to describe; "" is the default one.
func (cl *client) entityNames(ctx context.Context, entity configEntity) ([]string, error) {
	if entity.named {
		if entity.of != kmsg.ConfigResourceTypeTopic {
			return []string{entity.name}, cl.isUp(ctx, entity)
		}
		all, err := cl.admin.ListTopicsWithInternal(ctx)
		if err == nil && !all.Has(entity.name) {
			err = fmt.Errorf("the topic '%s' doesn't exist and doesn't have dynamic config", entity.name)
		}
		return []string{entity.name}, err
	}
	switch entity.of {
	case kmsg.ConfigResourceTypeTopic:
		return cl.topicsMatching(ctx, "", false, false)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		brokers, err := cl.admin.ListBrokers(ctx)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, id := range brokers.NodeIDs() {
			names = append(names, strconv.Itoa(int(id)))
		}
		if entity.of == kmsg.ConfigResourceTypeBroker {
			names = append(names, "")
		}
		return names, nil
	}
	listed, err := cl.admin.ListConfigResources(ctx, entity.of)
	if err != nil {
		if errors.Is(err, kerr.UnsupportedVersion) || strings.Contains(err.Error(), "broker is too old") {
			err = entity.unserved()
		}
		return nil, err
	}
	var names []string
	for _, r := range listed.Resources {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names, nil
}

// isUp refuses a broker that is not there to be asked, and takes all else.
func (cl *client) isUp(ctx context.Context, entity configEntity) error {
	if entity.name == "" || entity.of != kmsg.ConfigResourceTypeBroker && entity.of != kmsg.ConfigResourceTypeBrokerLogger {
		return nil
	}
	brokers, err := cl.admin.ListBrokers(ctx)
	if err != nil {
		return err
	}
	known := brokers.NodeIDs()
	if !slices.ContainsFunc(known, func(id int32) bool { return strconv.Itoa(int(id)) == entity.name }) {
		return fmt.Errorf("broker %s does not exist or is not up; there are %s", entity.name, ids(known))
	}
	return nil
}

// describeConfig asks for the settings of one entity: all of them, or those that were set for it.
func (cl *client) describeConfig(ctx context.Context, entity configEntity, name string, all bool) ([]describedConfig, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = entity.of, name
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	own := map[kmsg.ConfigResourceType]kmsg.ConfigSource{
		kmsg.ConfigResourceTypeTopic: kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigResourceTypeBroker: kmsg.ConfigSourceDynamicBrokerConfig,
		kmsg.ConfigResourceTypeClientMetrics: kmsg.ConfigSourceClientMetricsConfig, kmsg.ConfigResourceTypeGroupConfig: kmsg.ConfigSourceGroupConfig,
		kmsg.ConfigResourceTypeBrokerLogger: kmsg.ConfigSourceDynamicBrokerLoggerConfig,
	}[entity.of]
	if entity.of == kmsg.ConfigResourceTypeBroker && name == "" {
		own = kmsg.ConfigSourceDynamicDefaultBrokerConfig
	}
	var configs []describedConfig
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			if errors.Is(err, kerr.InvalidRequest) && entity.of >= kmsg.ConfigResourceTypeClientMetrics {
				return nil, entity.unserved()
			}
			return nil, refused("describe the settings of "+entity.kind+" "+name, err, text(r.ErrorMessage))
		}
		for _, config := range r.Configs {
			if !all && config.Source != own {
				continue
			}
			d := describedConfig{config.Name, config.Value, sourceName(config.Source), config.IsSensitive, config.ReadOnly, []describedSource{}}
			for _, s := range config.ConfigSynonyms {
				d.Synonyms = append(d.Synonyms, describedSource{sourceName(s.Source), s.Name, s.Value})
			}
			configs = append(configs, d)
		}
	}
	slices.SortFunc(configs, func(a, b describedConfig) int { return strings.Compare(a.Name, b.Name) })
	return configs, nil
}

// sourceName is a source as Java's ConfigEntry calls it.
func sourceName(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceClientMetricsConfig, kmsg.ConfigSourceGroupConfig:
		return "DYNAMIC_" + s.String()
	}
	return s.String()
}

func (a *app) alterConfigs(ctx context.Context, cl *client, c *clusterFlags, f configFlags, entity configEntity) error {
	set := make(map[string]string)
	if f.addFile != "" {
		var err error
		if set, err = a.keyValues(f.addFile, nil); err != nil {
			return err
		}
	}
	if err := parseConfigList(f.add, set); err != nil {
		return &failure{exitUsage, fmt.Errorf("--add-config: %w", err)}
	}
	var deleted []string
	for key := range strings.SplitSeq(f.del, ",") {
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		if _, both := set[key]; both {
			return &failure{exitUsage, fmt.Errorf("%s is both set and deleted", key)}
		}
		deleted = append(deleted, key)
	}
	changes := configChanges(set, deleted)
	if len(changes) == 0 {
		return &failure{exitUsage, errors.New("--alter needs --add-config, --add-config-file or --delete-config")}
	}
	if err := cl.isUp(ctx, entity); err != nil {
		return err
	}
	if err := cl.areSet(ctx, entity, deleted); err != nil {
		return err
	}
	if err := cl.alterConfig(ctx, entity, changes); err != nil {
		return err
	}
	type changed struct {
		Type string   `json:"type"`
		Name string   `json:"name"`
		Keys []string `json:"keys"`
	}
	v := changed{entity.kind, entity.name, []string{}}
	for _, config := range changes {
		v.Keys = append(v.Keys, config.Name)
	}
	return a.result(c, v, func(w io.Writer) {
		if c.zookeeper != "" {
			fmt.Fprintf(w, "Completed Updating config for entity: %s.\n", entity.asBefore(entity.name))
		} else if entity.name == "" {
			fmt.Fprintf(w, "Completed updating default config for %ss in the cluster.\n", entity.kind)
		} else {
			fmt.Fprintf(w, "Completed updating config for %s %s.\n", entity.kind, entity.name)
		}
	})
}

// areSet refuses keys that an entity has no setting for: brokers take them as set back already, and a slip would go unnoticed.
func (cl *client) areSet(ctx context.Context, entity configEntity, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	configs, err := cl.describeConfig(ctx, entity, entity.name, false)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return slices.ContainsFunc(configs, func(config describedConfig) bool { return config.Name == key })
	})
	if len(missing) > 0 {
		return fmt.Errorf("--delete-config: %s %s has no setting of its own for %s; `moldau configs --describe` shows those that it has",
			entity.kind, cmp.Or(entity.name, "defaults"), strings.Join(missing, ", "))
	}
	return nil
}

// configChanges are settings to set and to set back.
func configChanges(set map[string]string, deleted []string) []kmsg.IncrementalAlterConfigsRequestResourceConfig {
	var changes []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, key := range sortedKeys(set) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(set[key])
		changes = append(changes, config)
	}
	for _, key := range deleted {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op = key, kmsg.IncrementalAlterConfigOpDelete
		changes = append(changes, config)
	}
	return changes
}

// alterConfig changes settings of one entity.
func (cl *client) alterConfig(ctx context.Context, entity configEntity, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	err := cl.alterConfigAs(ctx, "change the settings of "+entity.kind+" "+entity.name, entity, changes)
	if errors.Is(err, kerr.InvalidRequest) && entity.of >= kmsg.ConfigResourceTypeClientMetrics {
		return entity.unserved()
	}
	return err
}

// alterConfigAs is alterConfig for a tool that says in its own words what was refused.
func (cl *client) alterConfigAs(ctx context.Context, what string, entity configEntity, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = entity.of, entity.name, changes
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return refused(what, err, text(r.ErrorMessage))
		}
	}
	return nil
}

// asBefore is an entity as tools called it that were told of ZooKeeper.
func (e configEntity) asBefore(name string) string {
	kind := e.kind
	if e.of == kmsg.ConfigResourceTypeBroker {
		kind = "brokers"
	}
	if name == "" {
		return "default " + kind
	}
	return kind + " '" + name + "'"
}

// parseConfigList reads k1=v1,k2=[v2,v3]: a comma inside brackets belongs to the value.
func parseConfigList(list string, into map[string]string) error {
	for rest := list; rest != ""; {
		key, after, found := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" || strings.Contains(key, ",") {
			return fmt.Errorf("%q: want key=value", rest)
		}
		value := ""
		if strings.HasPrefix(after, "[") {
			closing := strings.IndexByte(after, ']')
			if closing < 0 {
				return fmt.Errorf("%q: a bracket is not closed", rest)
			}
			value, after = after[1:closing], after[closing+1:]
			if after != "" && after[0] != ',' {
				return fmt.Errorf("%q: want a comma after the bracket", rest)
			}
			rest = strings.TrimPrefix(after, ",")
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		into[key] = strings.TrimSpace(value)
	}
	return nil
}
