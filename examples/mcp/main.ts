// npx tsx examples/mcp/main.ts
// An MCP server whose tool takes a minute, and asks. In another terminal: npx tsx examples/mcp/client.ts
// With DATABASE_URL set, kill the server while the client polls, and start it again: the client gets its result.
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { createTasks, defineTask } from 'longhaul'
import { mcpTasks, mcpTool } from 'longhaul/mcp'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { z } from 'zod'

const url = process.env['DATABASE_URL']
const { engine, store } = url === undefined ? memory() : postgres({ pool: new pg.Pool({ connectionString: url }) })
/** Duration of a month, in milliseconds. */
const MONTH_MS = Number(process.env['MONTH_MS'] ?? 5000)

const report = defineTask({
  name: 'report',
  input: z.object({ year: z.number().int() }),
  checkpoint: z.number(),
  asks: { publish: z.object({ publish: z.boolean() }) },
  run: async ({ year }, { ask, checkpoint, progress, signal }) => {
    for (let month = (checkpoint.value ?? 0) + 1; month <= 12; month++) {
      await sleep(MONTH_MS, undefined, { signal })
      await checkpoint.save(month)
      progress(month, 12)
    }
    const { publish } = await ask('publish', { message: `The report of ${year} is written. Publish it?` })
    return { year, months: 12, isPublished: publish }
  },
})

const tasks = createTasks({ engine, store, definitions: [report] })
const mcp = mcpTasks(tasks, {
  tools: [mcpTool(report, {
    title: 'Sales report', description: 'Writes the sales report of a year. Takes a minute.',
    declined: () => ({ publish: false }),
  })],
  owner: (authInfo) => authInfo?.clientId,
})

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'reports', version: '1.0.0' })
  mcp.register(server)
  return server
})

const listener = (token: string) => getRequestListener((request) => (
  // In place of your authentication: the bearer token is the name of the client.
  handler.fetch(request, { authInfo: { token, clientId: token, scopes: [] } })
))
const server = createServer((request, response) => {
  const token = /^Bearer (\w+)$/.exec(request.headers.authorization ?? '')?.[1]
  if (token === undefined) response.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
  else void listener(token)(request, response)
})
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const address = server.address()
  console.log(`MCP server at http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/mcp`)
})
