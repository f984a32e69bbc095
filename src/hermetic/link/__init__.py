"""The stream to a resident: frames, greeting, numbered requests, reconnect and replay.

What is asked, and why, is not known here.
"""
