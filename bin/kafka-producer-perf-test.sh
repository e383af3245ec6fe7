#!/usr/bin/env bash
# Sends records as fast as they go and tells how fast that was.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" producer-perf-test "$@"
