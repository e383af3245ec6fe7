#!/usr/bin/env bash
# Creates, lists, describes, changes and deletes topics.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" topics "$@"
