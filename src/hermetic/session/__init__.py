"""The one door to a shell: environments, their sessions, processes and results, as callers see them.

How a resident is reached is in link/, where it runs in environments/.
"""
