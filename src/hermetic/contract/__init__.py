"""The words everyone shares: values, endings, errors, limits and the protocols between parts.

Nothing here does I/O or imports anything of ours.
"""

VERSION = "0.1.0"
