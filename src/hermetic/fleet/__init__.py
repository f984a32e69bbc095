"""Opening and attaching; one environment per task, pools of prepared ones, release when idle;
garbage collection.

Tools are not known here.
"""
