"""What is known of programs: rows and rules as data, their interpreter, and hooks for what is
procedural.
"""
