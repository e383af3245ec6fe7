#!/usr/bin/env bash
# Sends numbers and tells which were acknowledged.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" verifiable-producer "$@"
