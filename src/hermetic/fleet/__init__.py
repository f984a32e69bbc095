"""Many environments: one for each task, made on first use, started ahead, let go of when idle; and what others left.

How one environment is opened is `session`'s; which tools run in it is not known here.
"""
