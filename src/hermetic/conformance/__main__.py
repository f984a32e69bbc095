"""`python -m hermetic.conformance docker image=debian -- -k timeout`: puts a kind of environment to
the suite.
"""

import itertools
import sys
from pathlib import Path

import pytest


def main(words: list[str]) -> int:
    """pytest's exit code."""
    own = list(itertools.takewhile(lambda word: word != "--", words))
    if not own or own[0].startswith("-"):
        sys.stderr.write(
            "usage: python -m hermetic.conformance KIND [KEY=VALUE …] [-- PYTEST ARGUMENT…]\n"
        )
        return 2
    options = [f"--environment-option={option}" for option in own[1:]]
    suite = [
        "-p",
        "hermetic.conformance.plugin",
        str(Path(__file__).parent),
        f"--environment={own[0]}",
    ]
    return int(pytest.main([*suite, *options, *words[len(own) + 1 :]]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
