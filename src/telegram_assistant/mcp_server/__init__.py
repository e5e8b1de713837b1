"""The MCP server: what an assistant may ask of the archive. A client of our own API, with a key like any other."""
