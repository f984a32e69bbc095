"""Decisions on actions: the gate, the user's rules, granted approvals, the queue of requests, and
the journal.

policy/ says what a text would do, session/ runs it.
"""
