"""The terminal tool: a command in the task's shell or in the background, and its output made fit
for a model.
"""
