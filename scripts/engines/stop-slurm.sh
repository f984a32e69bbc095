#!/usr/bin/env bash
# stop-slurm.sh: cancels the jobs of the cluster that start-slurm.sh started, and ends it.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
state=/run/hermetic-engines/slurm
[ -e "$state/slurm.conf" ] || exit 0
export SLURM_CONF=$state/slurm.conf
no_jobs() { [ -z "$(squeue -h)" ]; }
if is_ours "$state/slurmctld.id"; then
  squeue -h -o %A | xargs -r scancel || true
  await 15 "$state/slurmctld.id" no_jobs || say "some jobs did not end"
fi
for file in "$state"/slurmd-n*.id; do [ ! -e "$file" ] || end_ours "$file" 5; done
end_ours "$state/slurmctld.id" 10
end_ours "$state/munged.id" 5
rm -rf "$state"
