#!/usr/bin/env bash
# Reads records as fast as they come and tells how fast that was.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" consumer-perf-test "$@"
