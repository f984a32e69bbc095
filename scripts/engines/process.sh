# shellcheck shell=bash
# Sourced by the engine scripts: background processes that are remembered by pid and kernel start time, so that
# a script ends only what it started.

# start_time PID: in clock ticks since boot; empty when it is gone or ended and not yet collected.
start_time() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

# is_ours FILE: the process remembered in FILE is alive.
is_ours() {
  local pid ticks
  [ -r "$1" ] && read -r pid ticks <"$1" && [ -n "$ticks" ] && [ "$(start_time "$pid")" = "$ticks" ]
}

# start_ours FILE LOG COMMAND...: runs it in the background, detached, and remembers it in FILE.
start_ours() {
  local file=$1 log=$2
  shift 2
  setsid "$@" </dev/null >"$log" 2>&1 &
  printf '%s %s\n' $! "$(start_time $!)" >"$file"
}

# await SECONDS FILE COMMAND...: until COMMAND succeeds; fails when the process in FILE ends or time is up.
await() {
  local end=$((SECONDS + $1)) file=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    is_ours "$file" && [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

# end_ours FILE SECONDS: TERM, and KILL when it takes longer.
end_ours() {
  local pid end=$((SECONDS + $2))
  if is_ours "$1"; then
    read -r pid _ <"$1"
    kill -TERM "$pid" 2>/dev/null || true
    while is_ours "$1" && [ $SECONDS -lt $end ]; do sleep 0.1; done
    ! is_ours "$1" || kill -KILL "$pid" 2>/dev/null || true
    say "ended"
  fi
  rm -f "$1"
}

# forget_dead FILE NAME: removes a pid file whose pid belongs to no program of that name any more.
forget_dead() {
  local pid
  [ -r "$1" ] || return 0
  pid=$(<"$1")
  [ -n "$(start_time "${pid:-0}")" ] && [ "$(cat "/proc/${pid:-0}/comm" 2>/dev/null)" = "$2" ] || rm -f "$1"
}
