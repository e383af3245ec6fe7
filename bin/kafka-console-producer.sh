#!/usr/bin/env bash
# Sends each line of standard input as a record.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" console-producer "$@"
