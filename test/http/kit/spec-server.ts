// The least that speaks SPEC: what its text says, and nothing of longhaul's own. No ETag, no
// events, no Retry-After, no keys.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'

export type Step = (request: IncomingMessage, response: ServerResponse) => boolean

export interface SpecServer {
  readonly url: string
  /** The requests so far: `POST /api/long-running-task`. */
  readonly seen: string[]
  /** Looked at before each request; whether it has answered it. */
  intercept: Step
  /** Closes the port and opens the same one again, with the same tasks. */
  restart(whileDown: () => Promise<void>): Promise<void>
  close(): Promise<void>
}

/** A task takes as many polls as its input says. */
export async function startSpecServer(): Promise<SpecServer> {
  const tasks = new Map<string, number>()
  const seen: string[] = []
  let made = 0
  const site: { intercept: Step } = { intercept: () => false }

  const send = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
  const poll = (id: string): boolean | undefined => {
    const left = tasks.get(id)
    if (left === undefined) return undefined
    tasks.set(id, left - 1)
    return left <= 0
  }
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url = '' } = request
    seen.push(`${method} ${url}`)
    if (site.intercept(request, response)) return
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const [, id = ''] = /\/(?:api\/status|job-status)\/(.+)$/.exec(url) ?? []
    if (method === 'POST' && url === '/api/long-running-task') {
      if (request.headers.prefer !== 'respond-async') return send(response, 200, { message: 'Task completed.' })
      const taskId = `task-${++made}`
      tasks.set(taskId, Number(JSON.parse(body).data.polls))
      const place = `/api/status/${taskId}`
      return send(response, 202, { message: 'Accepted.', taskId }, { 'Location': place, 'Content-Location': place })
    }
    if (method === 'GET' && url.startsWith('/api/status/')) {
      const done = poll(id)
      if (done === undefined) return send(response, 404, { error: 'Task not found.' })
      return send(
        response,
        200,
        done ? { status: 'completed', result: { message: 'Task completed.' } } : { status: 'processing' },
      )
    }
    if (method === 'POST' && url === '/start-job') {
      const jobId = ++made
      tasks.set(String(jobId), 1)
      return send(response, 202, { jobId, statusUrl: `/job-status/${jobId}` })
    }
    if (method === 'GET' && url.startsWith('/job-status/')) {
      const done = poll(id)
      if (done === undefined) return send(response, 404, { error: 'Job not found.' })
      return send(response, 200, { id: Number(id), state: done ? 'completed' : 'active' })
    }
    if (method === 'POST' && url === '/upload-ndjson')
      return send(response, 200, { message: `Read ${body.split('\n').length - 1} lines.` })
    if (method === 'GET' && url === '/bulk-data') {
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson' }).end('{"id":1}\n{"id":2}\n')
      return
    }
    send(response, 404, { error: 'Not found.' })
  }

  let server: Server
  const open = async (port: number): Promise<number> => {
    server = createServer((request, response) => { void handle(request, response) })
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
  const close = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  const port = await open(0)
  return Object.assign(site, {
    url: `http://127.0.0.1:${port}`, seen, close,
    async restart(whileDown: () => Promise<void>) {
      await close()
      await whileDown()
      await open(port)
    },
  })
}
