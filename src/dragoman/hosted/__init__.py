"""Hosted tools that the upstream lacks, executed by us: search, fetch, MCP, tool search."""
