#!/usr/bin/env bash
# Prints the records of a topic.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" console-consumer "$@"
