"""Tests in `sdk/` need the vendors' SDKs:

`test_clouds.py` runs them in environments of their own.
"""

collect_ignore = ["sdk"]
