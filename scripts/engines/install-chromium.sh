#!/usr/bin/env bash
# Debian's Chromium, for tests of the console's page. Prints CHROMIUM=PATH once it has started.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
install_packages chromium
chromium --version >/dev/null || stop "chromium does not start here"
printf 'CHROMIUM=%s\n' "$(command -v chromium)"
