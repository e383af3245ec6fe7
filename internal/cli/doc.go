// Package cli is the command line of the one binary: every tool, one file each.
//
// It owns flags, exit codes, what a person reads on a terminal, and the form of log lines. serve hands a checked
// configuration to package node; storage writes the identity of directories through package storage. It decides nothing
// that a node must decide by itself when it is built without a command line.
//
// Invariants:
//  1. A tool's exit code is one of exit.go, and every failure is told on standard error with what to do about it.
//  2. What a script may read goes to standard output, everything else to standard error; log lines go to standard output,
//     as Kafka's do.
//  3. Flags are Kafka's wherever Kafka has the tool.
//
// Goroutines: serve starts and stops the node on goroutines of their own, so that a second signal gets through; they are
// left behind only by that signal, which ends the process. A progress bar has two until done; a console producer's reader of
// standard input is left behind for the end of the process, since reading cannot be interrupted.
//
// Files: shape.go, shape_table.go and shape_reader.go (how internal records look, and reading them), internal_records.go and
// dump_decoder.go (showing them), java_json.go (JSON and numbers as Kafka's tools write them), tool.go (what tools share),
// dialed.go (why a cluster cannot be reached), progress.go, completion.go; every other file is one tool or a part of it.
//
// Not obvious:
//   - Nothing here is a package variable: tests run many invocations side by side.
package cli
