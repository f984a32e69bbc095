#!/usr/bin/env bash
# build-kubernetes.sh: the servers and the kubelet of Kubernetes 1.20, from the source package of Debian 12, which itself
# builds kubectl alone. Five minutes of two processors the first time; the result is kept in HERMETIC_ENGINES_CACHE.
# Prints KUBERNETES_BIN=DIRECTORY.
. "$(dirname "$(readlink -f "$0")")/apt.sh"
must_be_root_on_debian
version=1.20.2
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
kept=$engines_cache/kubernetes-$version

# define_openapi SOURCE WORK: writes a file that the API server is compiled with and the source lacks.
define_openapi() {
  local folders
  folders=$(cd "$1" && grep --recursive --files-with-matches --include='*.go' '+k8s:openapi-gen=true' \
    staging/src/k8s.io pkg/apis pkg/kubelet pkg/controller pkg/scheduler |
    grep -v -E '/(testdata|sample[^/]*|code-generator|_?examples?)/' | xargs -n 1 dirname | sort -u |
    sed -e 's|^staging/src/|k8s.io/kubernetes/vendor/|' -e 's|^pkg/|k8s.io/kubernetes/pkg/|' | paste -sd,)
  go build -o "$2/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
  "$2/openapi-gen" --go-header-file /dev/null --output-file-base zz_generated.openapi --report-filename "$2/violations" \
    --input-dirs "$folders" --output-package k8s.io/kubernetes/pkg/generated/openapi --output-base "$GOPATH/src"
}

build() { # WORK
  local work=$1 source=$1/go/src/k8s.io/kubernetes stamp flags program
  fetch_source "$work" kubernetes || stop "the mirror has no source of kubernetes"
  mkdir -p "$source"
  tar -C "$source" --strip-components=1 -xzf "$work"/kubernetes_*.orig.tar.gz
  export GOPATH=$work/go GOCACHE=$work/cache GO111MODULE=off GOFLAGS= CGO_ENABLED=0 PATH=/usr/lib/go-1.19/bin:$PATH
  cd "$source"
  say "generating definitions"
  define_openapi "$source" "$work"
  flags="-s -w"
  for stamp in k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/component-base/version; do
    flags+=" -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=20"
  done
  for program in "${programs[@]}"; do
    say "building $program"
    nice go build -ldflags "$flags" -o "$work/bin/$program" "k8s.io/kubernetes/cmd/$program"
  done
}

mkdir -p "$engines_cache"
exec 9>"$engines_cache/.kubernetes.lock"
flock 9
if [ ! -d "$kept" ]; then
  install_packages golang-1.19-go dpkg-dev debian-archive-keyring
  work=$(mktemp -d -p "$engines_cache" .kubernetes.XXXXXX)
  trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
  (build "$work")
  mv "$work/bin" "$kept"
fi
printf 'KUBERNETES_BIN=%s\n' "$kept"
