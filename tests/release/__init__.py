"""The packages of a release: built, installed alone, and run."""
