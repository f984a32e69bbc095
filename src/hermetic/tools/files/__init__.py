"""The file tools: read, write, search and patch the files of a task's place, made fit for a model.

How a file is read or changed there is the resident's; what a text becomes by an edit is in `edits/`.
"""
