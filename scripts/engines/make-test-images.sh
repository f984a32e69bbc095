#!/usr/bin/env bash
# make-test-images.sh [NAME...]: images for tests, made from this machine's apt sources, no registry needed.
#
#   base      Debian with bash, python3, procps
#   tools     base with git, vim, less and an ssh client
#   minimal   base with python3-minimal instead of python3
#   nobash    base without bash
#   nopython  base without Python
#   user      nopython, whose user is not root
#   scratch   one static busybox and links to it, nothing else: no /etc, no /tmp
#   musl      a busybox that is linked against musl, its C library, and the usual directories
#
# Each is loaded into docker and podman where they are there, as hermetic-test:NAME, and written as a .sif where
# apptainer is. Kept under HERMETIC_ENGINES_CACHE: a second call takes seconds. Prints IMAGE_NAME=hermetic-test:name,
# IMAGE_NAME_TAR=PATH and IMAGE_NAME_SIF=PATH.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
apptainer=${APPTAINER:-/opt/hermetic-engines/apptainer/bin/apptainer}
names=(base tools minimal nobash nopython user scratch musl)

contents() {
  case $1 in
    base) echo python3,procps,ca-certificates ;;
    tools) echo python3,procps,ca-certificates,git,vim,less,openssh-client ;;
  esac
}

tar_of() { printf '%s/%s-%s.tar' "$engines_cache" "${1/#user/nopython}" "$(codename)"; } # user is nopython but for its settings

build() { # NAME TAR
  say "building $1"
  case $1 in
    base | tools) bootstrap "$1" "$2.part" ;;
    scratch | musl) pack "make_$1" "$2.part" ;;
    *) build_once base && pack "make_${1/#user/nopython}" "$2.part" ;;
  esac
  mv "$2.part" "$2"
  rm -f "${2%.tar}.sif"
}

build_once() { [ -s "$(tar_of "$1")" ] || build "$1" "$(tar_of "$1")"; }

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

pack() { # FUNCTION TAR: the root folder that the function fills; it may use the folder beside it
  local work
  work=$(mktemp -d)
  mkdir "$work/root"
  "$1" "$work/root" "$work/beside"
  tar -C "$work/root" -cf "$2" .
  rm -rf "$work"
}

make_minimal() { # ROOT
  unpack_base "$1" python3 python3.11 libpython3-stdlib libpython3.11-stdlib
}

make_nobash() { # ROOT
  unpack_base "$1"
  rm "$1"/bin/{bash,rbash}
}

make_nopython() { # ROOT
  unpack_base "$1" python3 python3.11 libpython3-stdlib libpython3.11-stdlib python3-minimal python3.11-minimal \
    libpython3.11-minimal
  [ ! -e "$1"/usr/bin/python3 ] || stop "python3 is still there"
  printf 'someone:x:1000:1000::/home/someone:/bin/bash\n' >>"$1/etc/passwd"
  install -d -o 1000 -g 1000 "$1/home/someone"
}

unpack_base() { # ROOT PACKAGE...: without these packages, and without what no test needs: it is loaded sooner
  local root=$1
  shift
  tar -C "$root" --exclude='./dev/*' -xf "$(tar_of base)"
  [ $# = 0 ] || chroot "$root" dpkg --purge --force-all "$@" >/dev/null 2>&1 || stop "dpkg could not remove $*"
  rm -rf "$root"/var/lib/{apt,dpkg} "$root"/usr/share/{perl,perl5,zoneinfo,i18n} "$root"/usr/lib/*/{perl*,gconv} \
    "$root"/usr/bin/perl* "$root"/usr/lib/*/libperl*
}

make_scratch() { # ROOT BESIDE
  install_packages debian-archive-keyring
  fetch_from_suite "$(codename)" "$2" busybox-static || stop "the mirror has no $(codename)"
  dpkg-deb -x "$2"/*.deb "$2/packages"
  mkdir "$1/bin"
  cp "$2/packages/bin/busybox" "$1/bin/"
  chroot "$1" /bin/busybox --install -s /bin
}

make_musl() { # ROOT BESIDE: about half a minute of compiling
  local libc
  install_packages gcc make libc6-dev linux-libc-dev musl-tools bzip2 debian-archive-keyring
  fetch_source "$2" busybox || stop "the mirror has no source of busybox"
  tar -C "$2" -xf "$2"/busybox_*.orig.tar.*
  make_busybox "$2"/busybox-*/ || stop "busybox could not be compiled; its last words are above"
  mkdir -p "$1"/{bin,dev,etc,home,lib,proc,root,run,sys,tmp,usr/bin,var/tmp}
  chmod 1777 "$1/tmp" "$1/var/tmp"
  libc=$(readlink -f /lib/ld-musl-*.so.1)
  cp "$libc" "$1/lib/$(basename /lib/ld-musl-*.so.1)"
  cp "$2"/busybox-*/busybox "$1/bin/"
  chroot "$1" /bin/busybox --install -s /bin
  ln -s /bin/env "$1/usr/bin/env"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$1/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$1/etc/group"
}

make_busybox() { # SOURCE: without the parts that no test runs
  local log
  log=$(make -C "$1" defconfig 2>&1 && cd "$1" && awk '
    /^# (Networking|Mail|Print|Runit|Init|Console|Debian|Login|System Logging|Linux (Ext2|Module))/ { off = 1 }
    /^# (Archival Utilities|Coreutils|Editors|Finding|Linux System|Miscellaneous|Process|Shells)/ { off = 0 }
    { print off && /=y$/ ? "# " substr($0, 1, length($0) - 2) " is not set" : $0 }' .config >.chosen &&
    mv .chosen .config && { yes '' || true; } | make oldconfig 2>&1 &&
    make -j "$(nproc)" CC="musl-gcc -idirafter /usr/include -idirafter /usr/include/$(gcc -dumpmachine)" busybox 2>&1) ||
    { tail -n 20 <<<"$log" >&2; return 1; }
}

load() { # TAG TAR USER ENGINE...: nothing to do when the tag already has this content
  local tag=$1 tar=$2 user=$3 sum
  shift 3
  [ "$tar.sum" -nt "$tar" ] || sha256sum <"$tar" | cut -c1-64 >"$tar.sum"
  sum=$(<"$tar.sum")
  [ "$("$@" image inspect --format '{{index .Config.Labels "hermetic.content"}}' "$tag" 2>/dev/null)" != "$sum" ] || return 0
  "$@" import --change "LABEL hermetic.content=$sum" --change 'CMD ["/bin/sh"]' --change "USER $user" \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$tag" <"$tar" >/dev/null 2>&1 ||
    stop "$1 could not import $tar"
  say "$1 has $tag"
}

write_sif() { # TAR
  local sif=${1%.tar}.sif work
  [ ! -s "$sif" ] || return 0
  work=$(mktemp -d)
  tar -C "$work" --exclude='./dev/*' -xf "$1"
  "$apptainer" --quiet build --force --mksquashfs-args "-noI -noD -noF -noX" "$sif" "$work" >/dev/null 2>&1 || { rm -rf "$work"; stop "apptainer could not build $sif"; }
  rm -rf "$work"
  chmod 644 "$sif"
}

[ $# -gt 0 ] || set -- "${names[@]}"
engines=()
! docker info >/dev/null 2>&1 || engines+=(docker)
! command -v podman >/dev/null || engines+=(podman)
mkdir -p "$engines_cache"
exec 9>"$engines_cache/.lock"
flock 9
for name in "$@"; do
  [[ " ${names[*]} " == *" $name "* ]] || stop "no image is called $name; there are ${names[*]}"
  tar=$(tar_of "$name")
  build_once "$name"
  user=0
  [ "$name" != user ] || user=1000:1000
  for engine in "${engines[@]}"; do load "hermetic-test:$name" "$tar" "$user" "$engine"; done
  printf 'IMAGE_%s=hermetic-test:%s\nIMAGE_%s_TAR=%s\n' "${name^^}" "$name" "${name^^}" "$tar"
  if [ -x "$apptainer" ]; then
    write_sif "$tar"
    printf 'IMAGE_%s_SIF=%s\n' "${name^^}" "${tar%.tar}.sif"
  fi
done
