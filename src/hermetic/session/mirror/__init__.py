"""Directories of this machine kept the same in an environment, where it has no mount of them."""
