"""Tests of edits: what a text becomes."""
