"""Isolation of commands on this machine: bubblewrap, seccomp, cgroups, the workspace."""
