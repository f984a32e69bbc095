"""Files: paths that no link redirects, reading, writing, the journal of a patch, search."""
