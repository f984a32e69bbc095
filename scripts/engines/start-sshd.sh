#!/usr/bin/env bash
# start-sshd.sh [DIR] [--user NAME]: an sshd on 127.0.0.1 with throwaway keys in DIR; stop-sshd.sh [DIR] ends it.
# Prints SSH_HOST, SSH_PORT, SSH_USER, SSH_KEY and SSH_KNOWN_HOSTS once a login has worked.
here=$(dirname "$(readlink -f "$0")")
. "$here/apt.sh"
. "$here/process.sh"
must_be_root_on_debian
directory=/run/hermetic-engines/sshd user=root
while [ $# -gt 0 ]; do
  case $1 in
    --user) user=$2 && shift 2 ;;
    -*) stop "usage: ${0##*/} [DIR] [--user NAME]" ;;
    *) directory=$1 && shift ;;
  esac
done
[ -x /usr/sbin/sshd ] || install_packages openssh-server
command -v ssh >/dev/null || install_packages openssh-client
mkdir -p "$directory" /run/sshd
directory=$(readlink -f "$directory")
settings=$directory/sshd_config

write_settings() {
  local name port
  for name in host_key id; do [ -e "$directory/$name" ] || ssh-keygen -q -t ed25519 -N '' -f "$directory/$name"; done
  install -m 644 "$directory/id.pub" "$directory/authorized_keys"
  chmod 711 "$directory"
  install -d -o "$user" "$directory/home" # without a profile, which could wait for locks of other programs
  port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >"$settings" <<CONFIG
Port $port
ListenAddress 127.0.0.1
HostKey $directory/host_key
AuthorizedKeysFile $directory/authorized_keys
AllowUsers $user
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
StrictModes no
PidFile none
MaxStartups 200
MaxSessions 200
Subsystem sftp internal-sftp
SetEnv HOME=$directory/home
CONFIG
  printf '[127.0.0.1]:%s %s\n' "$port" "$(cut -d' ' -f1,2 "$directory/host_key.pub")" >"$directory/known_hosts"
}
setting() { awk -v name="$1" '$1 == name { print $2 }' "$settings"; }
login() {
  ssh -F none -i "$directory/id" -o IdentitiesOnly=yes -o "UserKnownHostsFile=$directory/known_hosts" \
    -o BatchMode=yes -o ConnectTimeout=3 -p "$(setting Port)" "$(setting AllowUsers)@127.0.0.1" true
}

if ! is_ours "$directory/sshd.id"; then
  write_settings
  start_ours "$directory/sshd.id" "$directory/sshd.log" /usr/sbin/sshd -D -e -f "$settings"
  say "started"
fi
await 20 "$directory/sshd.id" login || stop "no login; the log is $directory/sshd.log"
printf 'SSH_HOST=127.0.0.1\nSSH_PORT=%s\nSSH_USER=%s\n' "$(setting Port)" "$(setting AllowUsers)"
printf 'SSH_KEY=%s\nSSH_KNOWN_HOSTS=%s\n' "$directory/id" "$directory/known_hosts"
