#!/usr/bin/env bash
# Reads as a member of a group and tells what happens.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" verifiable-consumer "$@"
