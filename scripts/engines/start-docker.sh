#!/usr/bin/env bash
# start-docker.sh [--dir DIR]: Debian's dockerd, ready when this returns. Prints DOCKER_HOST=...
# Without --dir it is the machine's usual one; with it a second, separate daemon (socket, data and bridge of its
# own) for tests that stop or restart theirs. stop-docker.sh ends what this started.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
case "${1:-}" in
  "")
    state=/run/hermetic-engines/docker
    socket=/var/run/docker.sock exec_root=/var/run/docker pid_file=/var/run/docker.pid data=/var/lib/docker
    ;;
  --dir)
    mkdir -p "$2" && state=$(readlink -f "$2")
    socket=$state/docker.sock exec_root=$state/exec pid_file=$state/docker.pid data=$state/data
    ;;
  *) stop "usage: ${0##*/} [--dir DIR]" ;;
esac
[ ${#socket} -lt 100 ] || stop "$state is too long a path for a socket"
mkdir -p "$state"
is_answering() { docker -H "unix://$socket" info; }

start_daemon() { # OPTION...
  # A killed daemon leaves its pid behind, and dockerd refuses to start while any process has it.
  forget_dead "$pid_file" dockerd
  forget_dead "$exec_root/containerd/containerd.pid" containerd
  start_ours "$state/dockerd.id" "$state/dockerd.log" dockerd "${options[@]}" "$@"
  # A daemon that finds the containers of a killed one removes them before it answers.
  await 120 "$state/dockerd.id" is_answering && return
  say "dockerd does not answer; the end of its log:"
  tail -n 15 "$state/dockerd.log" >&2
  end_ours "$state/dockerd.id" 10
  end_containerd
  umount "$data" 2>/dev/null || true # dockerd mounts it on itself, and unmounts it only after a start
  return 1
}

# end_containerd: the one that a daemon with this exec root left behind.
end_containerd() {
  local pid_of
  pid_of=$(pgrep -f "^[^ ]*containerd --config $exec_root/") || return 0
  # shellcheck disable=SC2086  # one word per pid
  kill -KILL $pid_of 2>/dev/null || true
}

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
    options+=(-H "unix://$socket" --data-root "$data" --exec-root "$exec_root" --pidfile "$pid_file"
      --bridge "$bridge" --iptables=false --ip6tables=false)
  fi
  # A containerd that is about to end makes the first daemon fail. Files that a killed daemon left half written make
  # every daemon fail that reads them; one with empty directories works.
  start_daemon || start_daemon || start_daemon --data-root "$(mktemp -d "$data.XXXXXX")" ||
    stop "dockerd did not come up; its log is $state/dockerd.log"
  say "started"
fi
printf 'DOCKER_HOST=unix://%s\n' "$socket"
