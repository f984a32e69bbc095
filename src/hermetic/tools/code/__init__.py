"""Code mode, the tool `execute_code`: a Python script that calls the other tools, and only what it
prints comes back.

`inside/` holds the text that runs in the script's own interpreter; everything else runs at the
caller's.
"""
