"""The resident: the supervisor inside an environment that starts, feeds, reads and ends commands.

It runs under any Python from 3.8 on, with the standard library alone.
`docs/maintainers/protocol.md` describes the stream to it; `hermetic.link` is the host's end of that
stream. Type checkers take the name TYPE_CHECKING for True; here it is False, because importing
`typing` would slow every start.
"""
