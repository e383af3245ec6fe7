#!/usr/bin/env bash
# Starts a node with a server.properties. With -daemon it runs in the background: its output goes to
# $LOG_DIR/kafkaServer.out and its process id to $LOG_DIR/kafkaServer.pid (LOG_DIR is logs beside bin unless set).
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)

if [ $# -lt 1 ]; then
    echo "USAGE: $0 [-daemon] server.properties [--override property=value]*" >&2
    exit 1
fi
if [ "$1" != "-daemon" ]; then
    exec "$here/moldau.sh" serve "$@"
fi
shift
logs=${LOG_DIR:-$here/../logs}
mkdir -p "$logs"
nohup "$here/moldau.sh" serve "$@" >"$logs/kafkaServer.out" 2>&1 </dev/null &
echo $! >"$logs/kafkaServer.pid" # moldau.sh becomes the node, so this is the node's own id
