#!/usr/bin/env bash
# Lists the groups of every kind.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" groups "$@"
