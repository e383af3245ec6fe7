#!/usr/bin/env bash
# Prints what is in the files of a partition.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" dump-log "$@"
