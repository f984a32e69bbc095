"""Backends: one file per kind of environment, and the catalog of kinds.

A backend starts a resident, connects to it and removes it. Requests to a resident are not known
here.
"""
