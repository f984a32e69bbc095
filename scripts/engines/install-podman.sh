#!/usr/bin/env bash
# Debian's podman with settings that also work without CAP_SYS_RESOURCE and on hybrid cgroups. Prints PODMAN=PATH.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
install_packages podman runc

settings=/etc/containers/containers.conf.d/50-hermetic-engines.conf
mkdir -p "${settings%/*}"
cat >"$settings" <<'TOML'
[containers]
default_ulimits = ["nofile=1024:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
TOML
[ -e /etc/containers/policy.json ] ||
  printf '{"default": [{"type": "insecureAcceptAnything"}]}\n' >/etc/containers/policy.json
runtime=$(podman info --format '{{.Host.OCIRuntime.Name}}') || stop "podman info failed"
[ "$runtime" = runc ] || stop "podman uses $runtime instead of runc; look into /etc/containers"
printf 'PODMAN=%s\n' "$(command -v podman)"
