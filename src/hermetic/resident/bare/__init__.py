"""Bare mode: a resident for an environment with bash and without Python."""
