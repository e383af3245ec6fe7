// Package commitlog is one partition's log on disk.
package commitlog
