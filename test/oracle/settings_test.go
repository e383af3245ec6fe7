package oracle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// subject is something that has settings.
type subject struct {
	name     string // in the book
	kind     kmsg.ConfigResourceType
	resource string
}

func subjects() []subject {
	return []subject{
		{"topic", kmsg.ConfigResourceTypeTopic, "orders"},
		{"broker", kmsg.ConfigResourceTypeBroker, "1"},
		{"all brokers", kmsg.ConfigResourceTypeBroker, ""},
		{"group", kmsg.ConfigResourceTypeGroupConfig, "g"},
		{"client metrics", kmsg.ConfigResourceTypeClientMetrics, "m"},
	}
}

// values are tried for every setting: each is good for some and bad for others.
func values() []string {
	return []string{
		"", "0", "1", "-1", "-2", "5", "0.5", "1.5", "100000", "5000000", "2147483648", "99999999999999999999", "soon", " 5 ",
		"true", "TRUE", "yes", "compact,delete", "compact,compact", "delete,", "producer", "ZSTD", "LogAppendTime", "*", "0:1", "0:1,1:1", "1:", "range", "client_id=a.*",
	}
}

// TestSettings tries good and bad values of every setting that Apache Kafka describes, without changing it.
func TestSettings(t *testing.T) {
	const path = "testdata/settings.txt"
	compare(t, path, &trials{readBook(t, path)})
}

// trials are a script of values for settings. Older releases had others, and old versions of requests are asked elsewhere.
type trials struct{ entries []*entry }

func (s *trials) book() []*entry { return s.entries }

func (s *trials) asks(r release, _ served) bool { return r.version == releases()[0].version }

func (s *trials) play(st *stage, said func(*entry, answers)) {
	st.create("orders", nil)
	if *renew && len(s.entries) == 0 {
		s.entries = st.describedSettings()
	}
	for _, e := range s.entries {
		if e.line != "" {
			said(e, answers{1: st.try(e.line)})
		}
	}
}

// describedSettings makes an entry for each setting.
func (s *stage) describedSettings() (book []*entry) {
	for _, about := range subjects() {
		req := kmsg.NewPtrDescribeConfigsRequest()
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = about.kind, about.resource
		if about.resource == "" {
			resource.ResourceName = "1" // for all there is only what is set
		}
		req.Resources = append(req.Resources, resource)
		for _, c := range s.must(req, 4).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
			book = append(book, &entry{line: about.name + ": " + c.Name, asked: true})
		}
	}
	return book
}

// try tells which values of a setting are taken, and how the others are refused.
func (s *stage) try(line string) string {
	name, setting, _ := strings.Cut(line, ": ")
	by := map[string][]string{}
	var outcomes []string
	for _, about := range subjects() {
		if about.name != name {
			continue
		}
		for _, value := range values() {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly = true
			resource := kmsg.NewIncrementalAlterConfigsRequestResource()
			resource.ResourceType, resource.ResourceName = about.kind, about.resource
			config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			config.Name, config.Value = setting, &value
			resource.Configs = append(resource.Configs, config)
			req.Resources = append(req.Resources, resource)
			outcome := "taken"
			if err, ok := kerr.ErrorForCode(s.must(req, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode).(*kerr.Error); ok {
				outcome = err.Message
			}
			if by[outcome] == nil {
				outcomes = append(outcomes, outcome)
			}
			by[outcome] = append(by[outcome], fmt.Sprintf("%q", value))
		}
	}
	if len(outcomes) == 1 {
		return outcomes[0]
	}
	var parts []string
	for _, outcome := range outcomes {
		parts = append(parts, outcome+" "+strings.Join(by[outcome], " "))
	}
	return strings.Join(parts, "; ")
}
