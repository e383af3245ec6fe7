#!/usr/bin/env bash
# Looks at and changes ZooKeeper's nodes.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/moldau.sh" zookeeper-shell "$@"
