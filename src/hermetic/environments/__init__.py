"""Where commands run: one file per backend, the catalog of their kinds, and what the host remembers of each.

A backend says how to start a resident there and how to reach it; what is asked of it is not known here.
"""
