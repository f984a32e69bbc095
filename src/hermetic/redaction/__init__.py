"""Secrets found in text and replaced: known values first, then by form and by context."""
