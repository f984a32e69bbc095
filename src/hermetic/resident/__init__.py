"""The supervisor that lives where commands run: it starts, feeds, reads, waits for and ends them.

Runs inside an environment under any Python from 3.8 on, with the standard library alone and nothing else of ours. What
the stream to it looks like is in `docs/maintainers/protocol.md`; the host's end of that stream is `hermetic.link`. Type checkers
take the name TYPE_CHECKING for True; here it is set to False, because importing `typing` would slow every start.
"""
