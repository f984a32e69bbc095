"""The reader of shell text against bash: bash's normal form of a text, and scripts to compare."""
