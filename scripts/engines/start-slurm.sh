#!/usr/bin/env bash
# start-slurm.sh [--nodes N]: Debian's Slurm with N nodes (1 to 8; 3 unless given) on loopback: munged, slurmctld and a
# slurmd for each node. A second call takes a second, and starts again what was killed. stop-slurm.sh ends it.
# Each node claims 64 processors and 8 GB: placement is tested, not speed. A job gets 100 MB unless it asks for more.
# Prints TEST_SLURM_CONF and SLURM_STATE.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
nodes=3
case "${1:-}" in
  "") ;;
  --nodes) nodes=$2 ;;
  *) stop "usage: ${0##*/} [--nodes N]" ;;
esac
[[ $nodes == [1-8] ]] || stop "1 to 8 nodes"
install_packages slurm-wlm munge
state=/run/hermetic-engines/slurm
mkdir -p "$state/control"
chmod 755 "$state"
exec 9>"$state/lock"
flock 9 # two test runs may begin at once

write_settings() {
  local number
  [ -s "$state/munge.key" ] || (umask 077 && head -c 1024 /dev/urandom >"$state/munge.key")
  {
    cat <<END
ClusterName=hermetic
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=26817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge.sock
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd-%n.pid
StateSaveLocation=$state/control
SlurmdSpoolDir=$state/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=50000,bf_interval=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
DefMemPerCPU=100
OverTimeLimit=0
SlurmdParameters=config_overrides
END
    for number in $(seq "$nodes"); do
      echo "NodeName=n$number NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((26900 + number)) CPUs=64 RealMemory=8000"
    done
    echo "PartitionName=all Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP"
  } >"$state/slurm.conf"
}

# keep_running NAME COMMAND...: starts it unless it runs. Without descriptor 9, the lock: it is this script's alone.
keep_running() {
  local name=$1
  shift
  is_ours "$state/$name.id" || start_ours "$state/$name.id" "$state/$name.log" "$@" 9>&-
}
until_ready() { # SECONDS NAME COMMAND...
  await "$1" "$state/$2.id" "${@:3}" && return
  tail -n 5 "$state/$2.log" >&2
  stop "$2 did not come up; its log is $state/$2.log"
}
nodes_are_up() { [ "$(sinfo -h -N -o %t | grep -c -E '^(idle|mix|alloc)$')" -ge "$nodes" ]; }

is_ours "$state/slurmctld.id" || write_settings
export SLURM_CONF=$state/slurm.conf
keep_running munged munged --foreground --force --key-file="$state/munge.key" --socket="$state/munge.sock" \
  --pid-file="$state/munged.pid" --log-file="$state/munged.out" --seed-file="$state/munge.seed"
until_ready 10 munged test -S "$state/munge.sock"
keep_running slurmctld slurmctld -D -f "$SLURM_CONF"
for number in $(seq "$nodes"); do
  mkdir -p "$state/spool-n$number"
  keep_running "slurmd-n$number" slurmd -D -f "$SLURM_CONF" -N "n$number"
done
until_ready 30 slurmctld nodes_are_up
printf 'TEST_SLURM_CONF=%s\nSLURM_STATE=%s\n' "$SLURM_CONF" "$state"
