#!/usr/bin/env bash
# Deletes the records of partitions up to an offset.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" delete-records "$@"
