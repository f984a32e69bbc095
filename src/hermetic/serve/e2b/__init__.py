"""E2B's API over environments of an isolating kind: its SDKs use them as its sandboxes.

`door.py` has the routes and who is let in, `sandboxes.py` what lives, `control.py` the REST API,
`processes.py` and `files.py` the services of envd, `connect.py` the protocol they speak.
"""
