#!/usr/bin/env bash
# Finds the binary and becomes it. In order: $MOLDAU_BIN; the source tree around this script, built anew if anything
# changed; a binary beside this script or one folder up; the PATH.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)

if [ -n "${MOLDAU_BIN:-}" ]; then
    exec "$MOLDAU_BIN" "$@"
fi
if [ -f "$here/../cmd/moldau/main.go" ] && command -v go >/dev/null; then
    # Not `go run`: that would stay between this process and the node and keep signals from it.
    (cd "$here/.." && CGO_ENABLED=0 go build -o bin/moldau ./cmd/moldau)
    exec "$here/moldau" "$@"
fi
for binary in "$here/moldau" "$here/../moldau"; do
    if [ -f "$binary" ] && [ -x "$binary" ]; then
        exec "$binary" "$@"
    fi
done
if command -v moldau >/dev/null; then
    exec moldau "$@"
fi
echo "moldau is not found: set MOLDAU_BIN, put it beside $here/moldau.sh or in the PATH, or install Go to build it" >&2
exit 1
