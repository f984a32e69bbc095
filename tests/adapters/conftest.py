"""Tests in `real/` need the frameworks:

`test_frameworks.py` runs them in environments of their own.
"""

collect_ignore = ["real"]
