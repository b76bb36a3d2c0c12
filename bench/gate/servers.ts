// Requests through a real socket that the gate counts, with the default of every option.
import type { CountedServer, Requests } from '../frame/instructions.js'
import { BODY } from '../tasks/work.js'

const ITEMS = JSON.stringify(Array.from({ length: 10 }, (_, n) => ({ id: n, name: `User ${n}`, email: `user${n}@example.org`, role: 'reader' })))
const ACCEPT: Requests = { requests: [post('/reports', BODY, 'Prefer: respond-async')], expectStatus: 202 }

/** A server below `servers`, and what it is asked. */
export const SOCKET_JOBS: Readonly<Record<string, { readonly server: string } & Pick<CountedServer, 'prepare'>>> = {
  'accept': { server: 'node', prepare: () => ACCEPT },
  'accept in Fastify': { server: 'fastify', prepare: () => ACCEPT },
  'accept in Express': { server: 'express', prepare: () => ACCEPT },
  'poll': {
    server: 'node',
    prepare: async (run) => {
      const bodies = await run({ ...ACCEPT, count: 100, keepBodies: 100 })
      return { requests: bodies.map((body) => get(`/tasks/${(JSON.parse(body) as { taskId: string }).taskId}`)), expectStatus: 200 }
    },
  },
  'bulk of 10': { server: 'node', prepare: () => ({ requests: [post('/users/bulk', ITEMS)], expectStatus: 201 }) },
}

function post(path: string, body: string, ...headers: readonly string[]): string {
  return request(`POST ${path}`, body, [...headers, 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`])
}

function get(path: string): string {
  return request(`GET ${path}`, '', [])
}

function request(target: string, body: string, headers: readonly string[]): string {
  return [`${target} HTTP/1.1`, 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', ...headers, '', body].join('\r\n')
}
