"""What a text becomes by an edit: matching, replacing, patches, diffs.

Pure functions over texts: no files, no environment. Who reads and writes the files is `session/patching.py`.
"""
