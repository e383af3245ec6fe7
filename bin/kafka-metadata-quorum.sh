#!/usr/bin/env bash
# Tells how the controllers of a cluster are.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" metadata-quorum "$@"
