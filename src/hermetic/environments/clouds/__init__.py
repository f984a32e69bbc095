"""What the kinds of cloud vendors share: the stream to a resident there, and the life of a sandbox."""
