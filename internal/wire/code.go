package wire

// Code returns the Kafka error code of err.
func Code(err error) int16 { return 0 }

// Message returns the text that goes with Code(err), or nil for no error.
func Message(err error) *string { return nil }
