"""`python -m hermetic`: the command line."""

import sys

from hermetic.cli import main

if __name__ == "__main__":
    sys.exit(main())
