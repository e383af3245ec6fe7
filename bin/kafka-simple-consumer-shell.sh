#!/usr/bin/env bash
# Prints the records of one partition, of its leader or another replica.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" simple-consumer-shell "$@"
