"""The supervisor that lives where commands run: it starts, feeds, reads, waits for and ends them.

Runs inside an environment under any Python from 3.8 on, with the standard library alone and nothing else of ours.
`docs/maintainers/protocol.md` describes the stream to it; `hermetic.link` is the host's end of that stream. Type
checkers take the name TYPE_CHECKING for True; here it is False, because importing `typing` would slow every start.
"""
