#!/usr/bin/env bash
# make-test-images.sh [NAME...]: Debian images for tests, made from this machine's apt sources, no registry needed.
#
#   base    bash, python3, procps
#   bare    bash and busybox and nothing else
#   tools   base with git, vim, less and an ssh client
#
# Each is loaded into docker and podman where they are there, as hermetic-test:NAME, and written as a .sif where
# apptainer is. Kept under HERMETIC_ENGINES_CACHE: a second call takes seconds. Prints IMAGE_NAME=hermetic-test:name,
# IMAGE_NAME_TAR=PATH and IMAGE_NAME_SIF=PATH.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
apptainer=${APPTAINER:-/opt/hermetic-engines/apptainer/bin/apptainer}

contents() {
  case $1 in
    base) echo python3,procps,ca-certificates ;;
    tools) echo python3,procps,ca-certificates,git,vim,less,openssh-client ;;
    *) stop "no image is called $1; there are base, bare and tools" ;;
  esac
}

build() { # NAME TAR
  say "building $1"
  if [ "$1" = bare ]; then make_bare "$2.part"; else bootstrap "$1" "$2.part"; fi
  mv "$2.part" "$2"
  rm -f "${2%.tar}.sif"
}

bootstrap() { # NAME TAR
  install_packages mmdebstrap debian-archive-keyring
  # shellcheck disable=SC2016  # the hook's $1 is the image's root folder
  mmdebstrap --quiet --format=tar --mode=root --variant=minbase --include="$(contents "$1")" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --aptopt='Acquire::Languages "none"' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*; : > "$1"/etc/apt/sources.list' \
    "$(codename)" "$2" "$(source_line "$(codename)")"
}

make_bare() { # TAR: two static programs; every other command is a link to busybox
  local work root package
  install_packages debian-archive-keyring
  work=$(mktemp -d)
  root=$work/root
  fetch_from_suite "$(codename)" "$work" bash-static busybox-static || stop "the mirror has no $(codename)"
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/packages"; done
  mkdir -p "$root"/{bin,dev,etc,proc,root,sys,tmp,usr/bin,var/tmp}
  chmod 1777 "$root/tmp" "$root/var/tmp"
  cp "$work/packages/bin/busybox" "$root/bin/busybox"
  chroot "$root" /bin/busybox --install -s /bin
  cp "$work/packages/bin/bash-static" "$root/bin/bash"
  ln -s /bin/env "$root/usr/bin/env"
  printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/bash\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  tar -C "$root" -cf "$1" .
  rm -rf "$work"
}

load() { # TAG TAR ENGINE...: nothing to do when the tag already has this content
  local tag=$1 tar=$2 sum
  shift 2
  sum=$(sha256sum <"$tar" | cut -c1-64)
  [ "$("$@" image inspect --format '{{index .Config.Labels "hermetic.content"}}' "$tag" 2>/dev/null)" != "$sum" ] || return 0
  "$@" import --change "LABEL hermetic.content=$sum" --change 'CMD ["/bin/bash"]' \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$tag" <"$tar" >/dev/null 2>&1 ||
    stop "$1 could not import $tar"
  say "$1 has $tag"
}

write_sif() { # TAR
  local sif=${1%.tar}.sif work
  [ ! -s "$sif" ] || return 0
  work=$(mktemp -d)
  tar -C "$work" --exclude='./dev/*' -xf "$1"
  "$apptainer" --quiet build --force "$sif" "$work" >/dev/null 2>&1 || { rm -rf "$work"; stop "apptainer could not build $sif"; }
  rm -rf "$work"
  chmod 644 "$sif"
}

[ $# -gt 0 ] || set -- base bare tools
mkdir -p "$engines_cache"
exec 9>"$engines_cache/.lock"
flock 9
for name in "$@"; do
  [ "$name" = bare ] || contents "$name" >/dev/null
  tar=$engines_cache/$name-$(codename).tar
  [ -s "$tar" ] || build "$name" "$tar"
  if docker info >/dev/null 2>&1; then load "hermetic-test:$name" "$tar" docker; fi
  if command -v podman >/dev/null; then load "hermetic-test:$name" "$tar" podman; fi
  printf 'IMAGE_%s=hermetic-test:%s\nIMAGE_%s_TAR=%s\n' "${name^^}" "$name" "${name^^}" "$tar"
  if [ -x "$apptainer" ]; then
    write_sif "$tar"
    printf 'IMAGE_%s_SIF=%s\n' "${name^^}" "${tar%.tar}.sif"
  fi
done
