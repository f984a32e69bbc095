#!/usr/bin/env bash
# start-kubernetes.sh [--nodes N]: Kubernetes 1.20 with N nodes (1 to 4; 2 unless given) on addresses of this machine
# alone: etcd, API server, scheduler, controllers, and for each node a kubelet with a dockerd of its own. Every node has
# the test images. A second call takes a second, and starts again what was killed. stop-kubernetes.sh ends it.
# Prints TEST_KUBECONFIG=PATH and KUBERNETES_STATE=DIRECTORY.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
nodes=2
case "${1:-}" in
  "") ;;
  --nodes) nodes=$2 ;;
  *) stop "usage: ${0##*/} [--nodes N]" ;;
esac
[[ $nodes == [1-4] ]] || stop "1 to 4 nodes"
state=/var/lib/hermetic-engines/kubernetes
images=(base nopython nobash tools)

# keep_running NAME COMMAND...: starts it unless it runs.
keep_running() {
  local name=$1
  shift
  # Without descriptor 9, the lock: it is this script's alone.
  is_ours "$state/$name.id" || start_ours "$state/$name.id" "$state/$name.log" "$@" 9>&-
}

# until_ready SECONDS NAME COMMAND...
until_ready() {
  await "$1" "$state/$2.id" "${@:3}" && return
  tail -n 5 "$state/$2.log" >&2
  stop "$2 did not come up; its log is $state/$2.log"
}

write_settings() {
  local token
  mkdir -p "$state"
  chmod 700 "$state"
  [ -s "$state/account.key" ] || openssl genrsa -out "$state/account.key" 2048 2>/dev/null
  [ -s "$state/tokens.csv" ] || printf '%s,admin,1,"system:masters"\n' "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >"$state/tokens.csv"
  token=$(cut -d, -f1 "$state/tokens.csv")
  cat >"$state/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:26443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: "$token"}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
END
  # kubelet wants an oom_score_adj below 0, which cannot be set where the machine lacks CAP_SYS_RESOURCE.
  cat >"$state/runc" <<'END'
#!/bin/sh
before= bundle=
for word; do case $before in --bundle | -b) bundle=$word ;; esac; before=$word; done
[ ! -f "$bundle/config.json" ] || sed -i -E 's/"oomScoreAdj": ?-[0-9]+/"oomScoreAdj":0/' "$bundle/config.json"
exec runc "$@"
END
  chmod 700 "$state/runc"
}

start_control_plane() {
  local etcd=http://127.0.0.1:26379 peer=http://127.0.0.1:26380
  ip addr replace 10.99.0.1/32 dev lo
  keep_running etcd etcd --data-dir="$state/etcd" --listen-client-urls=$etcd --advertise-client-urls=$etcd \
    --listen-peer-urls=$peer --initial-advertise-peer-urls=$peer --initial-cluster=default=$peer
  keep_running apiserver "$KUBERNETES_BIN/kube-apiserver" --etcd-servers=$etcd --bind-address=127.0.0.1 \
    --secure-port=26443 --insecure-port=0 --advertise-address=10.99.0.1 --endpoint-reconciler-type=none \
    --cert-dir="$state/apiserver" --token-auth-file="$state/tokens.csv" --authorization-mode=RBAC --anonymous-auth=false \
    --service-account-issuer=https://localhost --service-account-signing-key-file="$state/account.key" \
    --service-account-key-file="$state/account.key" --service-cluster-ip-range=10.97.0.0/24 \
    --kubelet-preferred-address-types=InternalIP
  until_ready 120 apiserver kubectl get --raw /readyz
  keep_running scheduler "$KUBERNETES_BIN/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port=26259 --port=0 --cert-dir="$state/scheduler"
  # Nodes count as lost after 12 s instead of 40: tests wait for it.
  keep_running controllers "$KUBERNETES_BIN/kube-controller-manager" --kubeconfig="$KUBECONFIG" --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port=26257 --port=0 --cert-dir="$state/controllers" \
    --service-account-private-key-file="$state/account.key" --root-ca-file="$state/apiserver/apiserver.crt" \
    --node-monitor-period=2s --node-monitor-grace-period=12s
}

start_engine() { # NUMBER
  local node=$1 bridge=hermetick8s$1
  ip link show "$bridge" >/dev/null 2>&1 || {
    ip link add "$bridge" type bridge
    ip addr add "10.98.$node.1/24" dev "$bridge"
    ip link set "$bridge" up
  }
  ip addr replace "10.99.0.$node/32" dev lo
  mkdir -p "$state/n$node"
  is_ours "$state/dockerd$node.id" || forget_dead "$state/n$node/dockerd.pid" dockerd
  keep_running "dockerd$node" dockerd --default-ulimit nofile=1024:20000 -H "unix://$state/n$node/s" \
    --data-root "$state/n$node/data" --exec-root "$state/n$node/exec" --pidfile "$state/n$node/dockerd.pid" \
    --bridge "$bridge" --iptables=false --ip6tables=false --exec-opt native.cgroupdriver=cgroupfs \
    --add-runtime "own=$state/runc" --default-runtime own
}

start_node() { # NUMBER
  local node=$1 host=unix://$state/n$1/s
  until_ready 60 "dockerd$node" docker -H "$host" info
  DOCKER_HOST=$host "$here/make-test-images.sh" scratch "${images[@]}" >/dev/null
  docker -H "$host" image inspect pause:v1 >/dev/null 2>&1 ||
    docker -H "$host" import --change 'ENTRYPOINT ["/bin/sleep", "2147483647"]' - pause:v1 \
      <"$engines_cache/scratch-$(codename).tar" >/dev/null
  keep_running "kubelet$node" "$KUBERNETES_BIN/kubelet" --kubeconfig="$KUBECONFIG" --container-runtime=docker \
    --docker-endpoint="$host" --pod-infra-container-image=pause:v1 --cgroup-driver=cgroupfs --cgroups-per-qos=false \
    --enforce-node-allocatable= --fail-swap-on=false --root-dir="$state/n$node/kubelet" --cert-dir="$state/n$node/certs" \
    --hostname-override="node$node" --node-ip="10.99.0.$node" --address="10.99.0.$node" --port=$((26250 + node)) \
    --read-only-port=0 --healthz-port=0 --anonymous-auth=true --authorization-mode=AlwaysAllow --max-pods=200 \
    --eviction-hard= --runtime-cgroups=/ --kubelet-cgroups=/ --cluster-dns= --serialize-image-pulls=false
}

are_nodes_ready() { [ "$(kubectl get nodes --no-headers | grep -c ' Ready ')" -ge "$nodes" ]; }

built=$("$here/build-kubernetes.sh")
export "${built?}"
command -v dockerd >/dev/null || install_packages docker.io iptables
command -v etcd >/dev/null || install_packages etcd-server
command -v kubectl >/dev/null || install_packages kubernetes-client
command -v ip >/dev/null || install_packages iproute2
command -v openssl >/dev/null || install_packages openssl
mkdir -p "${state%/*}"
exec 9>"$state.lock"
flock 9
[ -s "$state/kubeconfig" ] || write_settings
export KUBECONFIG=$state/kubeconfig
start_control_plane
for node in $(seq "$nodes"); do start_engine "$node"; done
for node in $(seq "$nodes"); do start_node "$node"; done
until_ready 120 "kubelet$nodes" are_nodes_ready
printf 'TEST_KUBECONFIG=%s\nKUBERNETES_STATE=%s\n' "$KUBECONFIG" "$state"
