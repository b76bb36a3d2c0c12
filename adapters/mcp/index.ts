export { mcpTasks } from './mcp-tasks.js'
export type {
  McpAuthInfo, McpRequest, McpTasks, McpTasksOptions, JsonRpcResponse,
} from './mcp-tasks.js'
export { mcpTool } from './tool.js'
export type { McpTool, McpToolListing, McpToolOptions, McpToolResult } from './tool.js'
export type { McpServerLike } from './sdk-server.js'
