"""What every tool works with: a task and its limits, notices of its processes, and text as a model
may see it.
"""
