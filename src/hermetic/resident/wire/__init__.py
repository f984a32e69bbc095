"""The wire protocol: frames, their fields, the stream, and the table of operations."""
