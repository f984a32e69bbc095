"""Tests of the web tools. Servers of this machine play the internet."""
