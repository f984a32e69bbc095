# shellcheck shell=bash
# Sourced by ./start and ./test: a private Python in .venv with Hermetic in it, made on first use.
#
#   prepare ROOT EXTRAS    EXTRAS is "serve" (to run), "dev" (to test) or "docs" (to build the site);
#                          returns at once when nothing has changed
#   build_page ROOT        the console's page, when its sources have changed; a failure is reported, not fatal
#
# Needs Python 3.11 or newer and one way to install packages into a fresh environment: ensurepip, a pip that is
# already there, uv or virtualenv. What pip has to say goes to .setup.log.

say() { printf "%s\n" "$@" >&2; }
stop() {
  say "$*"
  exit 1
}

prepare() {
  local root=$1 extras=$2 wanted started=$SECONDS
  [ "$(uname -s)" = Linux ] ||
    stop "Hermetic runs on Linux for now; $(uname -s) is not supported yet. A Linux virtual machine or container will do."
  # An environment knows its own path, so a moved checkout needs a new one.
  wanted=$({ printf '%s\n' "$root" && cat "$root/pyproject.toml"; } | sha256sum)
  ! is_ready "$root" "$extras" "$wanted" || return 0
  exec 9<"$root/pyproject.toml"
  ! command -v flock >/dev/null || flock 9
  if ! is_ready "$root" "$extras" "$wanted"; then
    : >"$root/.setup.log" || stop "Cannot write to $root; run this from a checkout that is yours."
    is_usable "$root/.venv" || make_environment "$root"
    install_hermetic "$root" "$extras"
    printf '%s\n' "$wanted" >"$root/.venv/.ready${extras:+-$extras}"
    say "Ready after $((SECONDS - started)) s; the next time takes none of it."
  fi
  exec 9<&-
}

is_ready() { # ROOT EXTRAS WANTED; what was set up for tests can run too, but builds no site
  local stamp stamps=("$1/.venv/.ready${2:+-$2}")
  [ -x "$1/.venv/bin/python" ] || return 1
  [ "$2" = docs ] || stamps+=("$1/.venv/.ready-dev")
  for stamp in "${stamps[@]}"; do
    [ ! -r "$stamp" ] || [ "$(<"$stamp")" != "$3" ] || return 0
  done
  return 1
}

pythons=(${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python)
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
is_usable() { is_new_enough "$1/bin/python" && installer "$1" >/dev/null; }

make_environment() {
  local root=$1 python found=()
  for python in "${pythons[@]}"; do
    if command -v "$python" >/dev/null && is_new_enough "$python"; then found+=("$python"); fi
  done
  [ ${#found[@]} -gt 0 ] || stop "Hermetic needs Python 3.11 or newer; $(python3 --version 2>/dev/null || echo none) is" \
    "what this machine has. Install a newer one beside it (python3.12, say) and run this again."
  say "Making a private environment in .venv ..."
  for python in "${found[@]}"; do
    if make_with "$python" "$root/.venv" >>"$root/.setup.log" 2>&1; then return 0; fi
  done
  stop "This Python cannot make environments that packages install into. One command helps: $(remedy "${found[0]}")" \
    "(details: $root/.setup.log)"
}

make_with() { # PYTHON DIRECTORY: the first way that works
  if "$1" -c 'import ensurepip' && "$1" -m venv --clear "$2"; then return 0; fi
  if "$1" -m venv --clear --without-pip "$2" && installer "$2"; then return 0; fi
  rm -rf "$2"
  if command -v uv && uv venv --python "$(command -v "$1")" "$2"; then return 0; fi
  if command -v virtualenv && virtualenv --python "$(command -v "$1")" "$2"; then return 0; fi
  "$1" -m virtualenv "$2"
}

remedy() {
  if command -v apt-get >/dev/null; then
    "$1" -c 'import sys; print("sudo apt-get install python%d.%d-venv" % sys.version_info[:2])'
  elif command -v dnf >/dev/null; then
    echo "sudo dnf install python3-pip"
  elif command -v apk >/dev/null; then
    echo "sudo apk add py3-pip"
  else
    echo "$1 -m ensurepip --user"
  fi
}

installer() { # DIRECTORY: the command that installs into it, one word a line
  local into=$1/bin/python python wheel
  if "$into" -m pip --version; then
    printf '%s\n' "$into" -m pip install >&3
    return
  fi
  for python in "${pythons[@]}"; do
    if command -v "$python" && "$python" -m pip --python "$into" --version; then
      printf '%s\n' "$python" -m pip --python "$into" install >&3
      return
    fi
  done
  if command -v uv; then
    printf '%s\n' uv pip install --python "$into" >&3
    return
  fi
  for wheel in /usr/share/python-wheels/pip-*.whl; do
    if "$into" "$wheel/pip" --version; then
      printf '%s\n' "$into" "$wheel/pip" install >&3
      return
    fi
  done
  return 1
} 3>&1 >/dev/null 2>&1

install_hermetic() {
  local root=$1 extras=$2 command
  mapfile -t command < <(installer "$root/.venv")
  say "Installing Hermetic and what it needs${extras:+ for development} (first time: about a minute) ..."
  if [ "$extras" = dev ] && (cd "$root" && install_with_uv "${command[@]}") >>"$root/.setup.log" 2>&1; then return 0; fi
  if ! (cd "$root" && HERMETIC_CONSOLE=later "${command[@]}" -e ".${extras:+[$extras]}") >>"$root/.setup.log" 2>&1; then
    tail -n 3 "$root/.setup.log" >&2
    stop "Installing failed; all of it is in $root/.setup.log. Is the package index reachable? Run this again when it is."
  fi
}

# INSTALLER...: what tests need, which has uv in it. That takes a quarter of pip's time; it is told of the index that pip's
# variables name, but pip's files may name another.
install_with_uv() {
  "$@" uv || return 1
  if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}; fi
  if [ -n "${PIP_FIND_LINKS:-}" ]; then export UV_FIND_LINKS=${UV_FIND_LINKS:-$PIP_FIND_LINKS}; fi
  if [ -n "${PIP_CERT:-}" ]; then export SSL_CERT_FILE=${SSL_CERT_FILE:-$PIP_CERT}; fi
  HERMETIC_CONSOLE=later .venv/bin/python -m uv pip install --python .venv -e ".[dev]"
}

build_page() {
  local root=$1 built=$1/src/hermetic/serve/page/.built
  [ -d "$root/console/src" ] || return 0
  if [ -e "$built" ] && [ -z "$(find "$root/console" -name node_modules -prune -o -type f -newer "$built" -print -quit)" ]; then
    return 0
  fi
  say "Building the console's page (first time: half a minute) ..."
  "$root/.venv/bin/python" "$root/console/build.py" >>"$root/.setup.log" 2>&1 ||
    say "It could not be built; everything else works. Details: $root/.setup.log"
}
