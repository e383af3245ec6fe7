#!/usr/bin/env bash
# Shows and changes which metrics clients push.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" client-metrics "$@"
