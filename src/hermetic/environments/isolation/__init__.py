"""What keeps commands apart on this machine: bubblewrap, seccomp, cgroups, the workspace."""
