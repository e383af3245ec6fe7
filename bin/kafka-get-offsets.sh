#!/usr/bin/env bash
# Prints offsets of partitions.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" get-offsets "$@"
