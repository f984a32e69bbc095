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
if [ "${1:-}" = --dir ]; then # a killed daemon leaves mounts, and the next one mounts its data once more
  awk -v top="$state/" 'index($2, top) == 1 { print $2 }' /proc/mounts | tac |
    while read -r path; do umount --lazy "$path" || true; done
fi
if [ -s "$state/bridge" ]; then
  ip link del "$(<"$state/bridge")" 2>/dev/null || true
  rm -f "$state/bridge"
fi
