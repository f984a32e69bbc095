"""Records of this host's environments, locks, processes, and the janitor that cleans up."""
