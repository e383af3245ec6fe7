package storage

// declareMetrics declares what the node counts about its disks.
func (s *Store) declareMetrics() {
	m := s.o.Metrics
	s.cleaner.declareMetrics()
	sync := &syncMetrics{
		seconds: m.Seconds("moldau_log_sync_seconds", "Time to make one partition's log durable."),
		rounds:  m.Counter("moldau_log_sync_rounds_total", "Group commits: rounds of the syncers of all log directories."),
	}
	for _, d := range s.dirs {
		if d.syncer != nil {
			d.syncer.metrics = sync
		}
	}
	m.GaugeFunc("moldau_log_unsynced_bytes", "Bytes appended to partitions and not yet durable.", func() float64 {
		var sum int64
		for _, l := range s.Logs() {
			bytes, _ := l.Dirty()
			sum += bytes
		}
		return float64(sum)
	})
	m.GaugeFunc("moldau_log_bytes", "Size of all partitions on this node.", func() float64 {
		var sum int64
		for _, l := range s.Logs() {
			sum += l.Size()
		}
		return float64(sum)
	})
	m.GaugeFunc("moldau_partitions", "Partitions whose log is open on this node.", func() float64 { return float64(len(s.Logs())) })
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
	for _, l := range s.Logs() {
		if l.dir == d {
			bytes, _ := l.Dirty()
			sum += bytes
		}
	}
	return sum
}
