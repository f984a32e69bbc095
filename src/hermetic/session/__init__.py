"""Environments, their sessions, processes and results, as callers hold them.

How a resident is reached is in link/, where it runs in environments/.
"""
