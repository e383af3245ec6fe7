#!/usr/bin/env bash
# Prints what lies in the data directories of brokers.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" log-dirs "$@"
