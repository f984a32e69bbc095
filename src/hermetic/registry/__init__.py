"""What this host remembers of its environments, and what cleans up after them: records, locks, the janitor."""
