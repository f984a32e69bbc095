#!/usr/bin/env bash
# stop-sshd.sh [DIR]: ends the sshd that start-sshd.sh started there, and no other.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
end_ours "${1:-/run/hermetic-engines/sshd}/sshd.id" 10
