"""The console's server: environments, processes, terminals and approvals of this user over HTTP and
WebSocket.

It needs the extra `serve`. It translates requests to the library and decides only who may send
them. `app.py` is the table of routes, `api/` has one file per resource, `access.py` who is let in,
`environments.py` what is watched.
"""
