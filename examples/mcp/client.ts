// Calls the tool of examples/mcp/main.ts, and follows its task: npx tsx examples/mcp/client.ts [URL]
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client'

const url = process.argv[2] ?? 'http://127.0.0.1:3000/mcp'
const authorization = 'Bearer ann'
const protocolVersion = '2026-07-28'
const clientInfo = { name: 'example', version: '1.0.0' }

const client = new Client(clientInfo, { versionNegotiation: { mode: 'auto' } })
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization } } }))

/** Sends one request. A server that is being started again is tried for a minute. */
async function send(message: { readonly method: string, readonly params: Readonly<Record<string, unknown>> }) {
  const { method, params } = message
  for (let tries = 1; ; tries++) {
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          authorization, 'content-type': 'application/json', 'accept': 'application/json, text/event-stream',
          'mcp-protocol-version': protocolVersion, 'mcp-method': method, 'mcp-name': String(params['taskId'] ?? params['name']),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      })
      return await response.json() as { readonly result?: never, readonly error?: { readonly code: number, readonly message: string } }
    } catch (error) {
      if (tries === 60 || method === 'tools/call') throw error
      await sleep(1000)
    }
  }
}

const session = createTaskSessionFromClient(client, {
  endpointId: 'reports',
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities: { elicitation: {} } },
  rawDispatch: async (request) => {
    const { result, error } = await send(request as unknown as Parameters<typeof send>[0])
    return error === undefined ? { kind: 'result', result: result ?? null } : { kind: 'error', error }
  },
  onInputRequest: async ({ params }) => {
    console.log((params as { readonly message?: string }).message, 'yes')
    // The type depends on the kind of the request, which is a form here.
    return { action: 'accept', content: { publish: true } } as never
  },
})
const execution = await session.callTool('report', { year: 2026 })
for await (const event of execution.updates()) if (event.type === 'task') console.log(event.task.status, event.task.statusMessage ?? '')
const { outcome } = await execution.settle()
console.log(JSON.stringify(resultFromTaskOutcome(outcome)))
await session.close()
await client.close()
