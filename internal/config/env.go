package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// environmentFile is how messages call the environment.
const environmentFile = "environment"

// environmentPrefixes begin the names of variables that set keys. KAFKA_CFG_ is Bitnami's.
var environmentPrefixes = []string{"MOLDAU_", "KAFKA_CFG_", "KAFKA_"}

// environmentOfImages is what Kafka's images, Java and their like read from the environment themselves. A text tells what
// to use here instead; where there is none nobody needs to hear of it.
var environmentOfImages = map[string]string{
	"KAFKA_HEAP_OPTS":            "there is no Java heap; GOMEMLIMIT bounds the memory",
	"KAFKA_OPTS":                 "there is no Java",
	"KAFKA_JMX_OPTS":             "metrics are served over HTTP: see http.listeners",
	"KAFKA_JMX_PORT":             "metrics are served over HTTP: see http.listeners",
	"KAFKA_JMX_HOSTNAME":         "metrics are served over HTTP: see http.listeners",
	"KAFKA_JVM_PERFORMANCE_OPTS": "there is no Java",
	"KAFKA_GC_LOG_OPTS":          "there is no Java",
	"KAFKA_LOG4J_OPTS":           "KAFKA_LOG4J_ROOT_LOGLEVEL and log.format say how the log looks",
	"KAFKA_LOG4J_LOGGERS":        "there is one logger, whose level KAFKA_LOG4J_ROOT_LOGLEVEL sets",
	"KAFKA_TOOLS_LOG4J_LOGLEVEL": "",
	"KAFKA_VERSION":              "",
	"KAFKA_HOME":                 "",
	"MOLDAU_BIN":                 "", // bin/moldau.sh asks it for the binary
}

// orchestrated matches the variables that Kubernetes and Docker set for a service called kafka or moldau. KAFKA_PORT is
// one too, if its value is a URL.
var orchestrated = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// rootLevel is the variable by which images set the level of the log.
const rootLevel = "KAFKA_LOG4J_ROOT_LOGLEVEL"

// rootLevels turns the levels of log4j into ours.
var rootLevels = map[string]string{"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warn", "ERROR": "error", "FATAL": "error", "OFF": "error"}

// environment reads the settings among variables of the form NAME=value.
func (l *loader) environment(variables []string, file []setting) []setting {
	variables = slices.Clone(variables)
	slices.Sort(variables)
	listeners := listenerNames(variables, file)
	var settings []setting
	for _, variable := range variables {
		name, raw, _ := strings.Cut(variable, "=")
		s, ok := l.variable(name, raw, listeners)
		if !ok {
			continue
		}
		i := slices.IndexFunc(settings, func(o setting) bool { return o.key == s.key })
		switch {
		case i < 0:
			settings = append(settings, s)
		case settings[i].variable == rootLevel: // log.level by its own name says it better
			settings[i] = s
		case settings[i].raw != s.raw && s.variable != rootLevel:
			l.faults = append(l.faults, Fault{File: environmentFile, Text: fmt.Sprintf(
				"%s and %s set %s to different values; take one out", settings[i].variable, s.variable, s.key)})
		}
	}
	return settings
}

// variable returns what one variable sets; ok is false if it sets nothing, and if a fault was told.
func (l *loader) variable(name, raw string, listeners []string) (s setting, ok bool) {
	s = setting{raw: raw, file: environmentFile, variable: name}
	switch why, theirs := environmentOfImages[name]; {
	case name == "CLUSTER_ID" || name == "KAFKA_KRAFT_CLUSTER_ID":
		s.key = "cluster.id"
		return s, true
	case name == rootLevel:
		level, known := rootLevels[strings.ToUpper(strings.TrimSpace(raw))]
		if !known {
			l.faultAt(s, String, "want TRACE, DEBUG, INFO, WARN, ERROR, FATAL or OFF")
		}
		s.key, s.raw = "log.level", level
		return s, known
	case theirs:
		if why != "" {
			l.warn(s, "has no effect: "+why)
		}
		return s, false
	case orchestrated.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(raw, "://"):
		return s, false
	}
	i := slices.IndexFunc(environmentPrefixes, func(p string) bool { return strings.HasPrefix(name, p) && len(name) > len(p) })
	if i < 0 {
		return s, false
	}
	readings := unmangled(strings.TrimPrefix(name, environmentPrefixes[i]))
	known := slices.DeleteFunc(slices.Clone(readings), func(key string) bool { return !isKey(key) })
	if len(known) > 1 { // only the name of a listener can hold what the dialects tell apart
		known = slices.DeleteFunc(known, func(key string) bool { return !slices.Contains(listeners, listenerOf(key)) })
		if len(known) != 1 {
			l.faults = append(l.faults, Fault{File: environmentFile, Text: fmt.Sprintf(
				"%s is %s to Apache's image and %s to Confluent's, and listeners names neither of the two, or both; set it in the file",
				name, readings[0], readings[1])})
			return s, false
		}
	}
	s.key = readings[0]
	if len(known) == 1 {
		s.key = known[0]
	}
	return s, true
}

// unmangled returns the keys that the rest of a variable's name can stand for: Apache's image writes _ as __ and - as ___
// (KIP-975), Confluent's the other way round.
func unmangled(name string) []string {
	name = strings.ToLower(name)
	dots := strings.ReplaceAll(name, "_", ".")
	apache := strings.ReplaceAll(strings.ReplaceAll(dots, "...", "-"), "..", "_")
	confluent := strings.ReplaceAll(strings.ReplaceAll(dots, "...", "_"), "..", "-")
	if apache == confluent {
		return []string{apache}
	}
	return []string{apache, confluent}
}

// mangled is the inverse, for keys that hold neither _ nor -.
func mangled(prefix, key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func isKey(key string) bool {
	_, known := brokerRow(key)
	return known || slices.ContainsFunc(pluginPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// listenerOf returns the listener whose setting a key is, in upper case; "" if it is not one's.
func listenerOf(key string) string {
	rest, ok := strings.CutPrefix(key, listenerPrefix)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, ".")
	return strings.ToUpper(name)
}

// listenerNames returns the names of the listeners that these settings declare, right or wrong.
func listenerNames(variables []string, file []setting) []string {
	raw := ""
	for _, s := range file {
		if s.key == "listeners" {
			raw = s.raw
		}
	}
	for _, prefix := range environmentPrefixes {
		for _, variable := range variables {
			if after, ok := strings.CutPrefix(variable, prefix+"LISTENERS="); ok {
				raw = after
			}
		}
	}
	var names []string
	for _, element := range splitList(raw) {
		name, _, _ := strings.Cut(element, "://")
		names = append(names, strings.ToUpper(name))
	}
	return names
}
