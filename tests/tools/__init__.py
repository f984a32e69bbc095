"""Tests of the tools: one folder per package of hermetic.tools."""
