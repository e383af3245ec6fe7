#!/usr/bin/env bash
# Asks every node on this machine to stop cleanly, or only those of --node-id=N or --process-role=ROLES.
# SIGNAL=INT and the like send another signal than TERM.
set -euo pipefail

node_id= role=
for argument in "$@"; do
    case $argument in
        --node-id=*) node_id=${argument#*=} ;;
        --process-role=*) role=${argument#*=} ;;
        *) echo "USAGE: $0 [--node-id=N] [--process-role=ROLES]" >&2; exit 1 ;;
    esac
done

# setting PID KEY DEFAULT ARGUMENT…: a key of the configuration that a node was started with.
setting() {
    local pid=$1 key=$2 value=$3 file=
    shift 3
    while [ $# -gt 0 ]; do
        case $1 in
            --override | --log-format) shift ;;
            --*) ;;
            *) file=$1 ;;
        esac
        [ $# -gt 0 ] && shift
    done
    if [ -n "$file" ]; then
        case $file in /*) ;; *) file=$(readlink -f "/proc/$pid/cwd" 2>/dev/null || pwd)/$file ;; esac
        value=$(sed -n "s/^[[:space:]]*${key//./\\.}[[:space:]]*[=:][[:space:]]*//p" "$file" 2>/dev/null | tail -1 | grep . || echo "$value")
    fi
    echo "$value"
}

# A node is a process whose program is called moldau and whose command is serve, or nothing but flags.
pids=
while read -r pid program arguments; do
    [ "${program##*/}" = moldau ] || continue
    case $arguments in
        serve | "serve "*) arguments=${arguments#serve} ;;
        "" | --override* | --log-format*) ;;
        *) continue ;;
    esac
    override=$(grep -o -- '--override[= ]node\.id=[0-9]*' <<<"$arguments" | tail -1 || true)
    if [ -n "$node_id" ]; then
        # shellcheck disable=SC2086
        own=$(setting "$pid" node.id 1 $arguments)
        [ -n "$override" ] && own=${override##*=}
        [ "$own" = "$node_id" ] || continue
    elif [ -n "$role" ]; then
        # shellcheck disable=SC2086
        [ "$(setting "$pid" process.roles broker,controller $arguments)" = "$role" ] || continue
    fi
    pids="$pids $pid"
done < <(ps ax -o pid=,args=)

if [ -z "$pids" ]; then
    echo "No kafka server to stop"
    exit 1
fi
# shellcheck disable=SC2086
kill -s "${SIGNAL:-TERM}" $pids
