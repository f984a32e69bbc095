"""Tests that look at the code itself: arrows between packages, sizes, what no file may name."""
