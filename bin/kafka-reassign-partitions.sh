#!/usr/bin/env bash
# Moves partitions between brokers and directories.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" reassign-partitions "$@"
