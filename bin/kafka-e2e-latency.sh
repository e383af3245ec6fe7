#!/usr/bin/env bash
# Measures how long a record takes from sending to reading.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" e2e-latency "$@"
