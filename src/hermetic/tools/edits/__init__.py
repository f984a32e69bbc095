"""Edits of texts: matching, replacing, patches, diffs.

Pure functions over texts: no files, no environment. `session/patching.py` reads and writes the
files.
"""
