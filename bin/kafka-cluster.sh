#!/usr/bin/env bash
# Prints a cluster's id and its brokers, or takes a broker out.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" cluster "$@"
