#!/usr/bin/env bash
# stop-kubernetes.sh [--purge]: ends the cluster that start-kubernetes.sh started; with --purge its files are removed.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
state=/var/lib/hermetic-engines/kubernetes
[ -d "$state" ] || exit 0
for name in scheduler controllers; do end_ours "$state/$name.id" 10; done
for node in 1 2 3 4; do
  end_ours "$state/kubelet$node.id" 10
  if is_ours "$state/dockerd$node.id"; then
    docker -H "unix://$state/n$node/s" ps --all --quiet | xargs --no-run-if-empty docker -H "unix://$state/n$node/s" rm --force >/dev/null 2>&1 || true
  fi
  end_ours "$state/dockerd$node.id" 30
  ip link del "hermetick8s$node" 2>/dev/null || true
  ip addr del "10.99.0.$node/32" dev lo 2>/dev/null || true
done
for name in apiserver etcd; do end_ours "$state/$name.id" 10; done
awk -v under="$state/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r | xargs --no-run-if-empty -n 1 umount 2>/dev/null || true
[ "${1:-}" != --purge ] || rm -rf "$state" "$state.lock"
