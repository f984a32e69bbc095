"""`python -m hermetic.conformance docker image=debian -- -k timeout`: puts a kind of environment to the suite."""

import sys
from pathlib import Path

import pytest


def main(words: list[str]) -> int:
    """pytest's exit code."""
    own, _, passed_on = (words, "", []) if "--" not in words else _split(words)
    if not own or own[0].startswith("-"):
        sys.stderr.write("usage: python -m hermetic.conformance KIND [KEY=VALUE …] [-- PYTEST ARGUMENT…]\n")
        return 2
    options = [f"--environment-option={option}" for option in own[1:]]
    suite = str(Path(__file__).parent)
    return int(
        pytest.main(["-p", "hermetic.conformance.plugin", suite, f"--environment={own[0]}", *options, *passed_on])
    )


def _split(words: list[str]) -> tuple[list[str], str, list[str]]:
    at = words.index("--")
    return words[:at], "--", words[at + 1 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
