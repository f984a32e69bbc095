"""Files: safe paths, reading, atomic writes, the patch journal, and search."""
