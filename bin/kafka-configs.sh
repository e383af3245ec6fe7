#!/usr/bin/env bash
# Shows and changes settings of topics and brokers.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" configs "$@"
