#!/usr/bin/env bash
# Prepares or inspects data directories: format, random-uuid, info.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" storage "$@"
