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
// left behind only by that signal, which ends the process.
//
// Not obvious:
//   - Nothing here is a package variable: tests run many invocations side by side.
package cli
