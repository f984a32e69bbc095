"""The file tools."""
