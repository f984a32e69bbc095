#!/usr/bin/env bash
# Debian's bubblewrap. Prints BWRAP=PATH once a sandbox has run with it.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
install_packages bubblewrap
bwrap --ro-bind / / --proc /proc --dev /dev --unshare-all true ||
  stop "bwrap cannot make namespaces here; allow user namespaces on this machine"
printf 'BWRAP=%s\n' "$(command -v bwrap)"
