import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { TestContext } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { toNode } from '../../../adapters/node/index.js'
import type { Handler } from '../../../src/http/exchange.js'
import { router } from '../../../src/resources/router.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import type {
  TaskEndpointsOptions, SubmitEndpointOptions,
} from '../../../src/tasks/http/settings.js'
import type { AnyTaskDefinition } from '../../../src/tasks/definition/define.js'
import { bench, type Bench } from '../../unit/kit/tasks.js'
import { listen } from '../../kit/listen.js'
import { keepAlive } from '../../kit/wait.js'

export interface Call {
  readonly headers?: Record<string, string>
  /** Sent as JSON. */
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** One server with one kind of work at POST /api/work, seen through a binding. */
export interface Site extends Bench {
  readonly call: (method: string, path: string, call?: Call) => Promise<Response>
  /** POST /api/work with `Prefer: respond-async`. */
  readonly start: (body?: unknown, headers?: Record<string, string>) => Promise<Response>
  /** Where it listens; only for `node`. */
  readonly port: number
  readonly server: Server | undefined
  /** What the binding's `onError` heard. */
  readonly noise: unknown[]
}

export type Binding = 'node' | 'fetch'
export const BINDINGS: readonly Binding[] = ['node', 'fetch']

export interface SiteOptions extends Omit<Parameters<typeof bench>[0], 'definitions'> {
  readonly endpoints?: Partial<TaskEndpointsOptions>
  readonly submit?: SubmitEndpointOptions
  readonly mountPath?: string
  /** More definitions. */
  readonly more?: readonly AnyTaskDefinition[]
}

export async function site(
  t: TestContext,
  binding: Binding,
  work: AnyTaskDefinition,
  options: SiteOptions = {},
): Promise<Site> {
  const { endpoints: endpointOptions, submit, mountPath = '', more = [], ...rest } = options
  // Timers of the library let a process end; without a socket nothing else would hold it.
  keepAlive(t)
  const made = bench({ definitions: [work, ...more], ...rest })
  const noise: unknown[] = []
  const endpoints = taskEndpoints(made.tasks, {
    statusPath: '/api/status/{id}',
    anonymous: true,
    owner: (request) => {
      const user = request.headers['x-user']
      return typeof user === 'string' ? user : undefined
    },
    ...endpointOptions,
  })
  const handler: Handler = router({
    'POST /api/work': endpoints.submit(work, submit),
    'POST /api/other': endpoints.submit(work),
    'GET|DELETE /api/status/{id}': endpoints.status,
    'POST /api/status/{id}/retry': endpoints.retry,
    'POST /api/status/{id}/callback': endpoints.callback,
  })
  const how = {
    mountPath,
    onError: (error: unknown) => {
      noise.push(error)
    },
  }
  let server: Server | undefined
  let port = 0
  let send: (request: Request) => Promise<Response>
  if (binding === 'node') {
    server = createServer(toNode(handler, how))
    const listening = await listen(server)
    port = listening.port
    send = fetch
    t.after(listening.close)
  } else {
    const handle = toFetch(handler, how)
    send = (request) => handle(request)
  }
  t.after(made.close)
  const call: Site['call'] = (method, path, { headers = {}, body, signal } = {}) =>
    send(
      new Request(`http://127.0.0.1:${String(port)}${path}`, {
        method,
        headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      }),
    )
  const start: Site['start'] = (body = {}, headers = {}) =>
    call('POST', `${mountPath}/api/work`, { body, headers: { prefer: 'respond-async', ...headers } })
  return { ...made, call, start, port, server, noise }
}

/** The members of a JSON answer. */
export async function members(response: Response): Promise<Record<string, unknown>> {
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
  return await response.json() as Record<string, unknown>
}

/** Reads server-sent events as they come. */
export async function* eventsOf(response: Response): AsyncGenerator<Record<string, string>> {
  let text = ''
  for await (const chunk of (response.body as ReadableStream<Uint8Array>).pipeThrough(
    new TextDecoderStream(),
  ) as unknown as AsyncIterable<string>) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const block = text.slice(0, end)
      text = text.slice(end + 2)
      yield Object.fromEntries(
        block.split('\n').map((line) => {
          const at = line.indexOf(': ')
          return at === 0 ? ['comment', line.slice(2)] : [line.slice(0, at), line.slice(at + 2)]
        }),
      )
    }
  }
}
