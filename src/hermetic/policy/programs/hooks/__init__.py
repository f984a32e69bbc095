"""Judges of programs whose meaning is procedural. A row names its hook."""
