"""The MCP server, spoken to by the official client in both protocol eras."""
