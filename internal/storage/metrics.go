package storage

import "github.com/prometheus/client_golang/prometheus"

// directoryGauges is what is told of each log directory.
type directoryGauges struct{ s *Store }

// directoryGauge is one of them.
type directoryGauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *Store, d *Directory) float64
}

func (directoryGauges) all() []directoryGauge {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, []string{"dir"}, nil) }
	return []directoryGauge{
		{desc("moldau_log_unsynced_bytes", "Bytes appended to partitions, acked or not, that a power cut would take."), prometheus.GaugeValue,
			func(s *Store, d *Directory) float64 { return float64(s.Pending(d)) }},
		{desc("moldau_log_to_recover_bytes", "Bytes that an unclean start would have to read, at most."), prometheus.GaugeValue,
			func(_ *Store, d *Directory) float64 { return float64(d.keeper.toRead()) }},
		{desc("moldau_log_recovered_bytes_total", "Bytes that recovery has read since the start."), prometheus.CounterValue,
			func(_ *Store, d *Directory) float64 { return float64(d.scanned.Load()) }},
		{desc("moldau_log_open_files", "Descriptors of partitions' files that are open."), prometheus.GaugeValue,
			func(_ *Store, d *Directory) float64 { return float64(d.files.Open()) }},
	}
}

// Describe is for Prometheus.
func (g directoryGauges) Describe(c chan<- *prometheus.Desc) {
	for _, one := range g.all() {
		c <- one.desc
	}
}

// Collect is for Prometheus.
func (g directoryGauges) Collect(c chan<- prometheus.Metric) {
	for _, d := range g.s.dirs {
		if d.keeper == nil {
			continue // never came up
		}
		for _, one := range g.all() {
			c <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value(g.s, d), d.path)
		}
	}
}

// declareMetrics declares what the node counts about its disks.
func (s *Store) declareMetrics() {
	m := s.o.Metrics
	s.cleaner.declareMetrics()
	sync := &syncMetrics{
		seconds: m.Seconds("moldau_log_sync_seconds", "Time of one sync: of a partition's log, or of the whole filesystem for many logs."),
		rounds:  m.Counter("moldau_log_sync_rounds_total", "Group commits: rounds of the syncers of all log directories."),
	}
	for _, d := range s.dirs {
		if d.syncer != nil {
			d.syncer.metrics = sync
		}
	}
	m.Register(directoryGauges{s})
	m.GaugeFunc("moldau_log_bytes", "Size of all partitions on this node.", func() float64 {
		var sum int64
		for _, l := range s.allLogs() {
			sum += l.Size()
		}
		return float64(sum)
	})
	m.GaugeFunc("moldau_partitions", "Partitions whose log is open on this node.", func() float64 { return float64(len(s.Logs())) })
	m.GaugeFunc("moldau_partitions_moving", "Partitions that are being copied to another log directory of this node.", func() float64 { return float64(len(s.Futures())) })
	m.GaugeFunc("moldau_log_directories_offline", "Log directories that failed.", func() float64 {
		n := 0
		for _, d := range s.dirs {
			if !d.Online() {
				n++
			}
		}
		return float64(n)
	})
	m.GaugeFunc("moldau_log_directories_full", "Log directories that refuse writes for lack of space.", func() float64 {
		n := 0
		for _, d := range s.dirs {
			if d.Full() {
				n++
			}
		}
		return float64(n)
	})
}

// Pending returns how many bytes were appended in this directory and are not yet durable.
func (s *Store) Pending(d *Directory) int64 {
	var sum int64
	for _, l := range s.allLogs() {
		if l.dir == d {
			sum += l.UnsyncedBytes() // without a lock that is held while a disk stalls
		}
	}
	return sum
}
