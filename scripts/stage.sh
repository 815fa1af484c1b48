# Sourced by the other scripts, which run in the repository root.
# shellcheck shell=bash

# announce TEXT: one line with the seconds since the script began.
announce() {
  printf '[%4d s] %s\n' "$SECONDS" "$*"
}

# stage NAME COMMAND...: announces NAME and runs COMMAND. On a terminal its output is the progress
# display; elsewhere it goes to build/log/NAME.log, whose end is shown if the command fails.
stage() {
  local name=$1 log="build/log/${1// /-}.log" status=0
  shift
  announce "$name"
  if [ -t 1 ]; then
    "$@"
    return
  fi
  mkdir -p build/log
  "$@" >"$log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || { tail -n 60 "$log" >&2; echo "'$name' failed: all of its output is in $log" >&2; }
  return "$status"
}
