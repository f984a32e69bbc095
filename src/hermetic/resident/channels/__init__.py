"""Channels between programs inside and the client: scripts, their bridge, password requests."""
