#!/usr/bin/env bash
# stop-docker.sh [--dir DIR]: ends the dockerd that start-docker.sh started, and no other.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
case "${1:-}" in
  "") state=/run/hermetic-engines/docker ;;
  --dir) state=$(readlink -f "$2") ;;
  *) stop "usage: ${0##*/} [--dir DIR]" ;;
esac
end_ours "$state/dockerd.id" 30
if [ -s "$state/bridge" ]; then
  ip link del "$(<"$state/bridge")" 2>/dev/null || true
  rm -f "$state/bridge"
fi
