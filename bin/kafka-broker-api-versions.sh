#!/usr/bin/env bash
# Prints which requests each broker takes.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" broker-api-versions "$@"
