"""Tests mirror src/hermetic; architecture/ looks at the code itself, scenarios/ are whole journeys.

What tests lean on is named by what it holds: sizes.py (how much), programs.py (what the machine
must have), leftovers.py (what must not stay behind), event_loop.py (how `async def` tests run).
"""
