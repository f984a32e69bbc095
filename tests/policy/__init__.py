"""Tests of the policy: labels, folding, bounds, robustness."""
