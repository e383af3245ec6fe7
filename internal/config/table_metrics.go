package config

// metricsRows declares: watching the node.
var metricsRows = []Row{
	{Name: "metric.reporters", Type: List, Default: "org.apache.kafka.common.metrics.JmxReporter", Dynamic: ClusterWide, Standing: Inert,
		Text: "Java classes that report metrics.",
		Why:  "metrics are served over HTTP: see http.listeners"},
	{Name: "kafka.metrics.reporters", Type: List, Standing: Inert,
		Text: "Java classes that report metrics.",
		Why:  "metrics are served over HTTP: see http.listeners"},
	{Name: "kafka.metrics.polling.interval.secs", Type: Int, Default: "10", Check: atLeast(1), Standing: Inert,
		Text: "How often those classes are asked.",
		Why:  "metrics are served over HTTP: see http.listeners"},
	{Name: "metrics.num.samples", Type: Int, Default: "2", Check: atLeast(1), Standing: Inert,
		Text: "Samples that a rate is measured over.",
		Why:  "whoever scrapes the metrics works out rates"},
	{Name: "metrics.sample.window.ms", Type: Long, Default: "30000", Check: atLeast(1), Standing: Inert,
		Text: "Length of one such sample.",
		Why:  "whoever scrapes the metrics works out rates"},
	{Name: "metrics.recording.level", Type: String, Default: "INFO", Standing: Inert,
		Text: "How many metrics are kept.",
		Why:  "all metrics are kept"},
	{Name: "telemetry.max.bytes", Type: Int, Default: "1048576", Check: atLeast(1),
		Text: "Largest report of metrics that a client may push, in bytes as they come."},
}
