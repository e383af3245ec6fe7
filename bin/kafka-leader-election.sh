#!/usr/bin/env bash
# Elects leaders of partitions.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" leader-election "$@"
