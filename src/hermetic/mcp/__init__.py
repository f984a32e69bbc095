"""The MCP server: the tools of a toolbox for any MCP client. Needs the extra `mcp`; nothing else
imports it.

A front door: it translates requests into calls of `Toolbox`, and decides nothing.
"""
