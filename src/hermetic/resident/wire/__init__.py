"""The wire: frames, their fields, the stream, and the table of requests."""
