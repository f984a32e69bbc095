"""What models call: one package per tool, and `base` for what they share."""
