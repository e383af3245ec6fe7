#!/usr/bin/env bash
# Tells which features a cluster has.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" features "$@"
