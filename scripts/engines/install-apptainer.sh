#!/usr/bin/env bash
# install-apptainer.sh [--user NAME]: Apptainer beside the system, with an unprivileged user to run it as.
# Prints APPTAINER=PATH and APPTAINER_USER=NAME.
#
# Debian 12 has no package of it. This takes sid's, with the few libraries it was linked against, into a folder of
# its own and points its two programs at them; nothing of the system is replaced.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
prefix=/opt/hermetic-engines/apptainer user=hermetic-apptainer
case "${1:-}" in
  "") ;;
  --user) user=$2 ;;
  *) stop "usage: ${0##*/} [--user NAME]" ;;
esac
[ "$(dpkg --print-architecture)" = amd64 ] || stop "only amd64 is prepared for"
multiarch=x86_64-linux-gnu

build() {
  local work=$1 program
  fetch_from_suite sid "$work/packages" apptainer libc6 libseccomp2 libsqlite3-0 || stop "the mirror has no sid"
  for program in "$work"/packages/*.deb; do dpkg-deb -x "$program" "$work/tree"; done
  rm -rf "$prefix"
  mkdir -p "$prefix/bin" "$prefix/lib/$multiarch" "$prefix/runtime" "$prefix/var/lib/apptainer/mnt/session"
  cp -a "$work/tree/etc" "$prefix/etc"
  rm -rf "$prefix/etc/ld.so.conf.d"
  cp -a "$work/tree/usr/bin/apptainer" "$prefix/bin/"
  ln -s apptainer "$prefix/bin/singularity"
  cp -a "$work/tree/usr/lib/$multiarch/apptainer" "$prefix/lib/$multiarch/"
  # The starter looks for its settings relative to lib.
  ln -s ../etc "$prefix/lib/etc"
  ln -s ../var "$prefix/lib/var"
  (cd "$work/tree/usr/lib/$multiarch" && cp -a ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libresolv.so.2 libpthread.so.0 \
    libdl.so.2 librt.so.1 libnss_files.so.2 libnss_dns.so.2 libseccomp.so.* libsqlite3.so.* "$prefix/runtime/")
  for program in "$prefix/bin/apptainer" "$prefix/lib/$multiarch/apptainer/bin/starter"; do
    patchelf --set-interpreter "$prefix/runtime/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$prefix/runtime" "$program"
    ! "$prefix/runtime/ld-linux-x86-64.so.2" --list "$program" | grep 'not found' >&2 || stop "$program lacks a library"
  done
  # Built against sid's libc: the system's squashfuse cannot preload it, and works without.
  rm -f "$prefix/lib/$multiarch/apptainer/lib/offsetpreload.so"
  touch "$prefix/.complete"
}

install_packages patchelf squashfs-tools squashfuse fuse2fs fuse-overlayfs uidmap ca-certificates debian-archive-keyring
if [ ! -e "$prefix/.complete" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  build "$work"
fi
id "$user" >/dev/null 2>&1 || useradd -m -s /bin/bash "$user"
if ! grep -q "^$user:" /etc/subuid 2>/dev/null; then # --fakeroot needs ids of its own
  first=$(cat /etc/subuid /etc/subgid 2>/dev/null | awk -F: 'BEGIN { n = 100000 } $2 + $3 > n { n = $2 + $3 } END { print n }')
  usermod --add-subuids "$first-$((first + 65535))" --add-subgids "$first-$((first + 65535))" "$user"
fi
[ ! -e /dev/fuse ] || chmod 666 /dev/fuse # an ordinary user mounts images through it
runuser -u "$user" -- "$prefix/bin/apptainer" --version >&2 || stop "apptainer does not run"
printf 'APPTAINER=%s\nAPPTAINER_USER=%s\n' "$prefix/bin/apptainer" "$user"
