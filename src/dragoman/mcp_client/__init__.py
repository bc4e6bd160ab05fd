"""Connections to MCP servers on the official package, for hosted tools and for the toolkit."""
