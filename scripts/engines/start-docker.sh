#!/usr/bin/env bash
# start-docker.sh [--dir DIR]: Debian's dockerd, ready when this returns. Prints DOCKER_HOST=...
# Without --dir it is the machine's usual one; with it a second, separate daemon (socket, data and bridge of its
# own) for tests that stop or restart theirs. stop-docker.sh ends what this started.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
case "${1:-}" in
  "") state=/run/hermetic-engines/docker socket=/var/run/docker.sock ;;
  --dir) mkdir -p "$2" && state=$(readlink -f "$2") && socket=$state/docker.sock ;;
  *) stop "usage: ${0##*/} [--dir DIR]" ;;
esac
[ ${#socket} -lt 100 ] || stop "$state is too long a path for a socket"
mkdir -p "$state"
is_answering() { docker -H "unix://$socket" info; }

command -v dockerd >/dev/null || install_packages docker.io iptables
command -v docker >/dev/null || install_packages docker.io
command -v ip >/dev/null || install_packages iproute2

if ! is_answering >/dev/null 2>&1; then
  # dockerd's own default for open files cannot be set where the machine lacks CAP_SYS_RESOURCE.
  options=(--default-ulimit nofile=1024:20000)
  if [ "${1:-}" = --dir ]; then
    # A bridge of its own: --bridge=none would delete the one the first daemon uses.
    number=$((0x$(printf %s "$state" | sha256sum | cut -c1-2) % 250 + 2))
    bridge=hermetic$number
    ip link show "$bridge" >/dev/null 2>&1 || {
      ip link add "$bridge" type bridge
      ip addr add "10.94.$number.1/24" dev "$bridge"
      ip link set "$bridge" up
    }
    printf '%s\n' "$bridge" >"$state/bridge"
    options+=(-H "unix://$socket" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/docker.pid"
      --bridge "$bridge" --iptables=false --ip6tables=false)
  fi
  start_ours "$state/dockerd.id" "$state/dockerd.log" dockerd "${options[@]}"
  await 60 "$state/dockerd.id" is_answering || {
    tail -n 5 "$state/dockerd.log" >&2
    stop "dockerd did not come up; its log is $state/dockerd.log"
  }
  say "started"
fi
printf 'DOCKER_HOST=unix://%s\n' "$socket"
