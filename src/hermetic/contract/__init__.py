"""The words everyone shares: types, protocols, errors; no I/O, imports nothing of ours."""
