"""The process tool: what runs in the background, seen and steered, and what is told of it."""
