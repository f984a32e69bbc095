"""The file tools: read, write, search and patch files of a task's environment, made fit for a
model.

The resident reads and changes the files. What a text becomes by an edit is in `edits/`.
"""
