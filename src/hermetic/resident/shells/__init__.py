"""Shell sessions: the primary shell, its standbys, their state, and moves to a fresh bash."""
