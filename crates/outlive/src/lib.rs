//! MCP sessions that outlive their servers.
