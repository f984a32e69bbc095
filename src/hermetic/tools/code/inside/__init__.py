"""What runs inside a script's interpreter: standard library only, Python 3.8 or newer, imported by
nothing here.

It is shipped as text. Until a tool is first called it imports only what a bare interpreter already
has, which is why imports stand where they are needed, and are written as calls.
"""
