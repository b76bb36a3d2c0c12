// An MCP server with tasks behind a port, and the official clients. `mcp-server.ts` starts the same as a process.
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { Client, StreamableHTTPClientTransport, type ClientOptions } from '@modelcontextprotocol/client'
import {
  createTaskSessionFromClient, type RawClientDispatch, type TaskEnabledSession,
} from '@modelcontextprotocol/ext-tasks/client'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { createTasks, defineTask, HttpError, jsonSchema } from 'longhaul'
import { mcpTasks, mcpTool, type McpTasks } from 'longhaul/mcp'
import { z } from 'zod'

const VERSION = '2026-07-28'
const EXTENSION = 'io.modelcontextprotocol/tasks'
const clientInfo = { name: 'test', version: '1.0.0' }

/** Tools with the parts of `createTasks` of an engine. */
export function mcpWork(parts: Omit<Parameters<typeof createTasks>[0], 'definitions'>) {
  const report = defineTask({
    name: 'report',
    input: z.object({ year: z.coerce.number().int(), ms: z.number().default(0) }),
    run: async ({ year, ms }, { progress, signal }) => {
      progress(1, 12, 'January')
      if (ms > 0) await new Promise((resolve) => {
        const timer = setTimeout(resolve, ms)
        signal.addEventListener('abort', () => { clearTimeout(timer); resolve(undefined) })
      })
      return { year, months: 12 }
    },
  })
  const fail = defineTask({
    name: 'fail',
    input: jsonSchema<{ how: string }>({ type: 'object', required: ['how'], properties: { how: { type: 'string' } } }),
    run: ({ how }) => {
      if (how === 'known') throw new HttpError(409, 'seat_taken', { message: 'The seat is taken.' })
      throw new Error('password=hunter2')
    },
  })
  const mail = defineTask({
    name: 'mail',
    input: jsonSchema<{ to: string }>({ type: 'object', required: ['to'], properties: { to: { type: 'string' } } }),
    asks: {
      approve: z.object({ send: z.boolean() }),
      count: z.number().int(),
      tags: z.array(z.object({ tag: z.string() })),
    },
    run: async ({ to }, { ask }) => {
      const { send } = await ask('approve', { message: `Send the mail to ${to}?` })
      if (to !== 'all') return { sent: send }
      const [count, tags] = await Promise.all([
        ask('count', { message: 'How many?' }),
        ask('tags', { message: 'Which tags?' }),
      ])
      return { sent: send, count, tags }
    },
  })
  const hidden = defineTask({ name: 'hidden', run: () => 'no tool' })
  const tasks = createTasks({ ...parts, definitions: [report, fail, mail, hidden] })
  const mcp = mcpTasks(tasks, {
    tools: [
      mcpTool(report, {
        title: 'Report',
        description: 'Writes the report of a year.',
        annotations: { readOnlyHint: true },
      }),
      mcpTool(fail),
      mcpTool(mail, { name: 'send-mail' }),
    ],
    owner: (authInfo) => authInfo?.clientId,
    pollIntervalMs: 50,
  })
  return { tasks, mcp, report, fail, mail, hidden }
}

/** Serves `mcp` and one ordinary tool by Streamable HTTP. The bearer token is the owner. */
export async function serveMcp(mcp: McpTasks, port = 0): Promise<{ readonly url: string, readonly server: Server }> {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'reports', version: '1.0.0' })
    server.registerTool('ping', { description: 'Says pong.' }, () => ({ content: [{ type: 'text', text: 'pong' }] }))
    mcp.register(server)
    return server
  })
  const server = createServer((request, response) => {
    const token = request.headers.authorization?.replace('Bearer ', '')
    const authInfo = token === undefined ? undefined : { token, clientId: token, scopes: [] }
    void getRequestListener((each) => handler.fetch(each, { ...authInfo && { authInfo } }))(request, response)
  })
  await new Promise<void>((resolve) => { server.listen(port, '127.0.0.1', resolve) })
  return { url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/mcp`, server }
}

/** Connects the client of the official SDK. */
export async function connect(
  url: string,
  owner: string,
  options: ClientOptions = { versionNegotiation: { mode: 'auto' } },
): Promise<Client> {
  const client = new Client(clientInfo, options)
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${owner}` } } }),
  )
  return client
}

/** Returns the content of the form with this message and these fields. */
type FillForm = (message: string, fields: Readonly<Record<string, { readonly type: string }>>) => object

interface FormParams {
  readonly message: string
  readonly requestedSchema: { readonly properties: Readonly<Record<string, { readonly type: string }>> }
}

/** Opens a session of `@modelcontextprotocol/ext-tasks`. Each request is a connection of its own. */
export async function openSession(url: string, owner: string, fill?: FillForm): Promise<TaskEnabledSession> {
  const client = await connect(url, owner)
  const rawDispatch: RawClientDispatch = async (request) => {
    const response = await rpc(url, owner, request as unknown as Message)
    if (response.error) return { kind: 'error', error: response.error }
    return { kind: 'result', result: response.result as never }
  }
  return createTaskSessionFromClient(client, {
    endpointId: 'reports',
    rawDispatch,
    v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities: { elicitation: {} } },
    ...(fill && {
      onInputRequest: async ({ kind, params }) => {
        assert.equal(kind, 'elicitation')
        const {
          message,
          requestedSchema: { properties },
        } = params as unknown as FormParams
        return { action: 'accept', content: fill(message, properties) } as never
      },
    }),
  })
}

export interface Message {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>>
}

export interface Reply {
  readonly status: number
  readonly result?: Record<string, unknown>
  readonly error?: { readonly code: number, readonly message: string, readonly data?: never }
}

/** Sends one JSON-RPC request, with the headers of revision 2026-07-28. */
export async function rpc(url: string, owner: string, { method, params = {} }: Message): Promise<Reply> {
  const name = params['taskId'] ?? params['name']
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'accept': 'application/json, text/event-stream',
      'authorization': `Bearer ${owner}`,
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
      'connection': 'close',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 7, method, params }),
  })
  const text = await response.text()
  const line = text.split('\n').findLast((each) => each.startsWith('data: ') && each.includes('"id"'))
  return { status: response.status, ...JSON.parse(line?.slice(6) ?? text) as object }
}

/** Returns params that declare capabilities, as each request of revision 2026-07-28 does. */
export function withCapabilities(
  params: Readonly<Record<string, unknown>>,
  capabilities: object,
): Readonly<Record<string, unknown>> {
  return {
    ...params,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': VERSION,
      'io.modelcontextprotocol/clientInfo': clientInfo,
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    },
  }
}

export const TASKS = { extensions: { [EXTENSION]: {} } }
