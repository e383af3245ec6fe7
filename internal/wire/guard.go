package wire

import "github.com/twmb/franz-go/pkg/kmsg"

func guard(req kmsg.Request, body []byte) error { return nil }
