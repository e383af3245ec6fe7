// Package controller decides: which topics exist, which broker leads what, who is alive.
//
// It owns the decisions of Kafka's controller as pure functions of (working image, request) that give records and a
// response, and the loop that feeds them one at a time. It does not own how records are replicated (package quorum, seen
// here as a Log), nor records and images (package metadata), nor who may ask (package api).
package controller
