// A server on the official SDK that tells its process, and dies when it is asked to.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const server = new McpServer({ name: "node", version: "1" });
const text = (text) => ({ content: [{ type: "text", text: String(text) }] });
server.registerTool("pid", { description: "The process of this server." }, () => text(process.pid));
server.registerTool("exit", { description: "Exits with code 7." }, () => process.exit(7));
await server.connect(new StdioServerTransport());
