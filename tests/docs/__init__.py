"""Tests of the documentation: its snippets run, its tables are complete, the tests it names exist."""
