#!/usr/bin/env bash
# Programs that tests run inside an environment: interactive ones (less, vim, top, git), sudo, ripgrep, other shells,
# other versions of bash.
# Prints OTHER_BASHES=PATH:PATH, the other versions that could be had.
#
# Other bash versions come from neighbouring Debian releases as the statically linked bash-static, so they need
# nothing else of that release: 5.1 (bullseye) and 5.3 (forky) beside the machine's own 5.2 (bookworm). Older ones
# (5.0 in buster, 4.4 in stretch) have left the ordinary mirrors and no package index ships them: not tried here.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
install_packages bash procps less vim git sudo passwd ripgrep zsh fish debian-archive-keyring

bashes=$engines_cache/bash
found=()
for suite in bullseye forky; do
  target=$bashes/$suite/bash
  if [ ! -x "$target" ]; then
    work=$(mktemp -d)
    if fetch_from_suite "$suite" "$work" bash-static; then
      dpkg-deb -x "$work"/bash-static_*.deb "$work/tree"
      mkdir -p "${target%/*}"
      cp "$work/tree/bin/bash-static" "$target" 2>/dev/null || cp "$work/tree/usr/bin/bash-static" "$target"
      # shellcheck disable=SC2016  # for that bash to expand
      say "bash $("$target" -c 'echo "$BASH_VERSION"') from $suite"
    else
      say "no bash from $suite: the mirror does not have it"
    fi
    rm -rf "$work"
  fi
  [ ! -x "$target" ] || found+=("$target")
done
if [ ${#found[@]} -gt 0 ]; then (IFS=:; printf 'OTHER_BASHES=%s\n' "${found[*]}"); fi
