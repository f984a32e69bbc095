"""The tool that runs a command and waits for it, and what makes its output fit for a model.

Texts only so far: control sequences, secrets, cutting, exit codes, hints. Nothing here starts a command.
"""
