"""Recordings of terminals and processes: written as asciicast, kept in a private directory, played
again.
"""
