"""The resident's own process: start, event loop, server, lease, guardian."""
