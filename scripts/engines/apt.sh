# shellcheck shell=bash
# Sourced by the engine scripts: packages of this Debian machine, from the sources its own apt already uses.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
# shellcheck disable=SC2034  # for the scripts that source this
engines_cache=${HERMETIC_ENGINES_CACHE:-/var/cache/hermetic-engines}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
stop() {
  say "$@"
  exit 1
}

must_be_root_on_debian() {
  [ "$(id -u)" = 0 ] || stop "run this as root"
  command -v apt-get >/dev/null || stop "needs Debian's apt-get"
}

codename() { (. /etc/os-release && printf '%s' "$VERSION_CODENAME"); }

# install_packages NAME...: installs what is missing and starts no service.
install_packages() {
  local name missing=()
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  without_services get_packages "${missing[@]}" || stop "apt-get could not install ${missing[*]}"
}

get_packages() { # a machine that never ran `apt-get update` has no lists yet
  apt_get install -y --no-install-recommends "$@" || { apt_get update && apt_get install -y --no-install-recommends "$@"; }
}
apt_get() {
  local told
  told=$(apt-get -qq -o DPkg::Lock::Timeout=300 "$@" 2>&1) || { printf '%s\n' "$told" >&2; return 1; }
}

# without_services COMMAND...: packages installed by it do not start their daemons.
without_services() {
  local guard=/usr/sbin/policy-rc.d code=0
  if [ -e "$guard" ]; then "$@"; return; fi
  printf '#!/bin/sh\nexit 101\n' >"$guard"
  chmod 755 "$guard"
  "$@" || code=$?
  rm -f "$guard"
  return $code
}

# mirror: the address this machine's apt has for its own release.
mirror() {
  local address
  # shellcheck disable=SC2016  # apt's own placeholders
  address=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$(codename)" '$1 == release && !found { print $2; found = 1 }')
  [ -n "$address" ] || stop "apt has no source for $(codename); run apt-get update"
  printf '%s' "$address"
}

source_line() { # SUITE [TYPE]
  printf '%s [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "${2:-deb}" "$(mirror)" "$1"
}

# fetch_from_suite SUITE DIRECTORY NAME...: .deb files of another release. Fails where the mirror does not have the suite.
fetch_from_suite() {
  local line
  line=$(source_line "$1")
  fetch "$line" "$2" download "${@:3}"
}

# fetch_source DIRECTORY NAME...: the sources of this release's packages, as archives.
fetch_source() {
  local line
  line=$(source_line "$(codename)" deb-src)
  fetch "$line" "$1" source --download-only "${@:2}"
}

# fetch SOURCE_LINE DIRECTORY ARGUMENT...: apt-get in that directory, with an apt state of its own; the machine's sources
# and lists stay as they are.
fetch() {
  local line=$1 directory=$2 state options
  shift 2
  state=$(mktemp -d)
  mkdir -p "$state/etc/preferences.d" "$state/lists/partial" "$state/cache/archives/partial" "$directory"
  for options in /etc/apt/apt.conf.d /etc/apt/auth.conf.d; do [ ! -d "$options" ] || cp -r "$options" "$state/etc/"; done
  printf '%s\n' "$line" >"$state/etc/sources.list"
  options=(-qq -o "Dir::Etc=$state/etc" -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
    -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none)
  local code=0
  (cd "$directory" && apt-get "${options[@]}" update && apt-get "${options[@]}" "$@") >/dev/null 2>&1 || code=1
  rm -rf "$state"
  return $code
}
