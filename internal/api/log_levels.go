package api

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
)

// rootLogger is the one logger that a node has, by the name that log4j gives the one above all others.
const rootLogger = "root"

// logLevels are Kafka's levels (LogLevelConfig), least severe first. Nothing is logged at those that slog does not name.
var logLevels = []struct {
	name  string
	level slog.Level
}{
	{"TRACE", slog.LevelDebug - 4}, {"DEBUG", slog.LevelDebug}, {"INFO", slog.LevelInfo}, {"WARN", slog.LevelWarn}, {"ERROR", slog.LevelError},
	{"FATAL", slog.LevelError + 4},
}

// describeLoggers returns the loggers of this node with their levels (KIP-412).
func (a *API) describeLoggers() []config.Entry {
	if a.o.LogLevel == nil {
		return nil
	}
	level := a.o.LogLevel.Level()
	i := slices.IndexFunc(logLevels, func(l struct {
		name  string
		level slog.Level
	}) bool {
		return l.level >= level
	})
	if i < 0 {
		i = len(logLevels) - 1
	}
	return []config.Entry{{Name: rootLogger, Value: &logLevels[i].name, Origin: config.OriginBrokerLogger, Text: "The least severe log lines that are written, until the node stops."}}
}

// alterLogger changes the level of this node's log until it stops. Mirrors RuntimeLoggerManager.
func (a *API) alterLogger(alt alteration, validateOnly bool) error {
	if err := a.checkNodeID(alt.name); err != nil {
		return err
	}
	next := -1
	for _, c := range alt.configs {
		switch c.op {
		case kmsg.IncrementalAlterConfigOpSet:
			if c.name != rootLogger || a.o.LogLevel == nil {
				return invalidConfig("Logger %s does not exist!", c.name)
			}
			for i, l := range logLevels {
				if l.name == *c.value {
					next = i
				}
			}
			if next < 0 {
				var names []string
				for _, l := range logLevels {
					names = append(names, l.name)
				}
				slices.Sort(names)
				return invalidConfig("Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are %s", c.name, *c.value, strings.Join(names, ", "))
			}
		case kmsg.IncrementalAlterConfigOpDelete:
			if c.name == rootLogger {
				return invalidRequest("Removing the log level of the root logger is not allowed")
			}
			return invalidConfig("Logger %s does not exist!", c.name)
		case kmsg.IncrementalAlterConfigOpAppend:
			return invalidRequest("APPEND operation is not allowed for the BROKER_LOGGER resource")
		case kmsg.IncrementalAlterConfigOpSubtract:
			return invalidRequest("SUBTRACT operation is not allowed for the BROKER_LOGGER resource")
		default:
			return invalidRequest("Unknown operation type %d is not allowed for the BROKER_LOGGER resource", c.op)
		}
	}
	if next >= 0 && !validateOnly {
		a.o.LogLevel.Set(logLevels[next].level)
		a.o.Logger.Info("the level of the log was changed", "level", logLevels[next].name)
	}
	return nil
}
