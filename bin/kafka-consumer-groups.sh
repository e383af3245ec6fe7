#!/usr/bin/env bash
# Lists and describes consumer groups, moves their offsets, deletes them.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" consumer-groups "$@"
