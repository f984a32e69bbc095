"""Script languages: what a text in Python, Perl, Ruby, JavaScript, PHP, Lua, awk or SQL would do.

`calls.toml` says what each call does. Python is read by its own parser, the others by one
tokenizer.
"""
