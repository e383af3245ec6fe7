// Package goclients drives the Go clients sarama and kafka-go against a node that runs already.
//
// It owns nothing but tests. It is a module of its own so that what these clients need is no part of the program's build;
// package compat runs it with the node's address in MOLDAU_ADDRESS, and without one its tests skip.
//
// Invariants: every check is made by a client that nobody here wrote.
//
// Goroutines: each member of a group has one that reads; closing the member waits for it.
package goclients
