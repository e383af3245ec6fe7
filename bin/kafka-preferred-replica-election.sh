#!/usr/bin/env bash
# Makes the first replica of partitions their leader.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" preferred-replica-election "$@"
