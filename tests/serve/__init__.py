"""Tests of the console's server: real servers on a free port, real local environments, requests
byte by byte.
"""
