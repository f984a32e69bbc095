#!/usr/bin/env bash
# ttyd, beside which terminals of the console are measured. Prints TTYD=PATH.
#
# Debian 12 has no package of it. The one of forky runs here with the libraries of forky, beside those of this machine:
# its loader gets them as an argument, so that the shells which ttyd starts use the machine's own. libwebsockets looks
# for its event loop in LD_LIBRARY_PATH, in a directory that holds nothing else.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
home=$engines_cache/ttyd
packages=(ttyd libwebsockets19t64 libwebsockets-evlib-uv libc6 libcap2 libjson-c5 libssl3t64 libuv1t64 zlib1g)

if path=$(command -v ttyd); then
  printf 'TTYD=%s\n' "$path"
  exit
fi
if [ ! -x "$home/ttyd" ]; then
  install_packages debian-archive-keyring
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if ! fetch_from_suite forky "$work" "${packages[@]}"; then
    say "no ttyd from forky: the mirror does not have it; raw terminals are the only yardstick"
    exit
  fi
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/tree"; done
  libraries=$(dirname "$(find "$work/tree" -name 'libwebsockets.so.*' -print -quit)")
  rm -rf "$home"
  mkdir -p "$home/plugins"
  cp -a "$libraries" "$home/lib"
  cp "$work/tree/usr/bin/ttyd" "$home/program"
  mv "$home/lib/libwebsockets-evlib_uv.so" "$home/plugins/"
  loader=$(basename "$(find "$home/lib" -name 'ld-linux*.so.*' -print -quit)")
  cat >"$home/ttyd" <<END
#!/bin/sh
LD_LIBRARY_PATH=$home/plugins exec $home/lib/$loader --library-path $home/lib $home/program "\$@"
END
  chmod 755 "$home/ttyd"
  "$home/ttyd" --version >/dev/null || { rm -rf "$home"; stop "ttyd of forky does not start here"; }
fi
printf 'TTYD=%s\n' "$home/ttyd"
