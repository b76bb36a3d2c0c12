// The fixtures of the scenarios `tasks-*` of @modelcontextprotocol/conformance 0.2.0-alpha, which needs Node 22:
// npx tsx test/http/mcp/conformance-server.ts, then
// npx @modelcontextprotocol/conformance@0.2.0-alpha.12 server --url http://127.0.0.1:3010/mcp --scenario tasks-lifecycle
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { createTasks, defineTask, HttpError, jsonSchema } from 'longhaul'
import { mcpTasks, mcpTool } from 'longhaul/mcp'
import { memory } from 'longhaul/memory'
import { z } from 'zod'

const slow = defineTask({
  name: 'slow_compute',
  input: jsonSchema<{ seconds: number }>({
    type: 'object',
    properties: { seconds: { type: 'number' }, label: { type: 'string' } },
  }),
  run: async ({ seconds }, { signal }) => {
    await sleep(seconds * 1000, undefined, { signal })
    return `Computed for ${seconds} s`
  },
})
const failing = defineTask({
  name: 'failing_job',
  run: async () => {
    await sleep(500)
    throw new HttpError(409, 'job_failed', { message: 'The job has failed.' })
  },
})
const broken = defineTask({ name: 'protocol_error_job', run: () => { throw new Error('broken') } })
const confirm = defineTask({
  name: 'confirm_delete',
  input: jsonSchema<{ filename: string }>({ type: 'object', properties: { filename: { type: 'string' } } }),
  asks: { confirm: z.object({ confirm: z.boolean() }) },
  run: async ({ filename }, { ask }) => {
    await ask('confirm', { message: `Delete ${filename}?` })
    return `Deleted ${filename}`
  },
})
const multi = defineTask({
  name: 'multi_input',
  asks: { first: z.object({ confirm: z.boolean() }), second: z.object({}) },
  run: async (_input: unknown, { ask }) => {
    await Promise.all([ask('first', { message: 'First?' }), ask('second', { message: 'Second?' })])
    return 'Both are answered.'
  },
})

const tasks = createTasks({
  ...memory(),
  definitions: [slow, failing, broken, confirm, multi],
  onError: () => undefined,
})
const mcp = mcpTasks(tasks, {
  tools: [slow, failing, broken, confirm, multi].map((definition) => mcpTool(definition as typeof slow)),
  owner: 'anyone',
  pollIntervalMs: 100,
})
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'fixtures', version: '1.0.0' })
  server.registerTool('greet', { inputSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}!` }],
  }))
  mcp.register(server)
  return server
})
createServer((request, response) => {
  void getRequestListener((each) => handler.fetch(each))(request, response)
}).listen(3010, '127.0.0.1')
console.log('ready')
