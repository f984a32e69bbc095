"""Adapters:

Hermetic's environments in the terms of agent frameworks. Each module imports its framework.
"""
