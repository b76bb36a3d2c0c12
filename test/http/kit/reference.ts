// The reference server in this process, and a client for it.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { AnswerWatch } from './openapi-watch.js'

/** Two writers, so that one can be a stranger to the other; the names of the tokens tell their roles. */
export const TOKENS = 'reader-1=rita:reader,writer-1=will:writer,writer-2=wanda:writer,admin-1=ada:admin'

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: ReturnType<typeof JSON.parse>
}

export interface Ask {
  /** Default `writer-1`; `null` for none. */
  readonly token?: string | null
  readonly headers?: Record<string, string>
  /** Sent as JSON; a string as it is. */
  readonly body?: unknown
}

export class Client {
  constructor(public url: string) {}

  /** Sends a request; resolves with the head of the answer. */
  open(method: string, path: string, { token = 'writer-1', headers = {}, body }: Ask = {}): Promise<Response> {
    return fetch(this.url + path, {
      method,
      headers: {
        ...token !== null && { authorization: `Bearer ${token}` },
        ...body !== undefined && { 'content-type': 'application/json' },
        ...headers
      },
      ...body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }
    })
  }

  async ask(method: string, path: string, what: Ask = {}): Promise<Answer> {
    const response = await this.open(method, path, what)
    const text = await response.text()
    const json =
      /^application\/(?:problem\+)?json/.test(response.headers.get('content-type') ?? '') && text !== ''
        ? JSON.parse(text)
        : undefined
    return { status: response.status, headers: response.headers, text, json }
  }

  /** Submits a task in the background. */
  submit(task: string, data: object, what: Ask = {}): Promise<Answer> {
    return this.ask('POST', '/api/long-running-task', {
      ...what,
      body: { task, data },
      headers: { prefer: 'respond-async', ...what.headers },
    })
  }

  /** Deletes a task that has ended, as it is now. */
  async forget(path: string, what: Ask = {}): Promise<Answer> {
    const { headers } = await this.ask('GET', path, what)
    return this.ask('DELETE', path, { ...what, headers: { ...what.headers, 'if-match': headers.get('etag') ?? '' } })
  }

  /** The status once the task has ended: long polls. */
  async ended(path: string, what: Ask = {}): Promise<Answer> {
    for (;;) {
      const answer = await this.ask('GET', path, { ...what, headers: { prefer: 'wait=20' } })
      if (answer.json?.status !== 'processing') return answer
    }
  }
}

/** A server for the tests of one file; all that it answers has to be what its OpenAPI document says. */
export function useReference(): Client {
  const client = new Client('')
  let server: RunningServer | undefined
  let watch: AnswerWatch | undefined
  before(async () => {
    server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS) })
    client.url = server.url
    watch = await AnswerWatch.of(server.url)
  })
  after(async () => {
    await server?.stop()
    await watch?.stop()
    assert.deepEqual([...watch?.faults ?? []], [], 'answers that are not what /openapi.json says')
  })
  return client
}
