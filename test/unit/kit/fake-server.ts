import { createClient, type Client, type ClientOptions } from '../../../src/client/index.js'

export const BASE = 'https://api.test'

/** A request as the fake server sees it. */
export interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly body: string
  readonly signal: AbortSignal
}

export type Reply = (request: Seen, at: number) => Response | Promise<Response>

/** A client whose `fetch` is a function; the requests are kept. Pauses are short. */
export function fakeServer(
  reply: Reply,
  options: ClientOptions = {},
): { readonly client: Client; readonly seen: Seen[] } {
  const seen: Seen[] = []
  const fetch = (async (input: string, init: RequestInit) => {
    const body = init.body === undefined || init.body === null ? '' : await new Response(init.body as string).text()
    const request: Seen = {
      method: init.method ?? 'GET',
      url: input,
      headers: init.headers as Record<string, string>,
      body,
      signal: init.signal as AbortSignal,
    }
    seen.push(request)
    return reply(request, seen.length - 1)
  }) as typeof globalThis.fetch
  const client = createClient({
    baseUrl: BASE,
    fetch,
    retry: { baseMs: 1, maxMs: 50, attempts: 4 },
    poll: { baseMs: 1, maxMs: 2 },
    ...options,
  })
  return { client, seen }
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(status === 304 || status === 204 ? null : JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  })
}

/** Replies one after the other; a function may throw. The last one stays. */
export function script(...replies: (Reply | (() => Response))[]): Reply {
  return (request, at) => {
    const reply = replies[Math.min(at, replies.length - 1)]
    if (!reply) throw new Error('no reply')
    return reply(request, at)
  }
}

/** What `fetch` does without a network. */
export function lost(): Response {
  throw new TypeError('fetch failed')
}

/** A body in pieces; `broken` ends it as a connection that was reset. */
export function pieces(parts: readonly (string | Uint8Array)[], broken = false): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let at = 0
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const part = parts[at++]
      if (part !== undefined) controller.enqueue(typeof part === 'string' ? encoder.encode(part) : part)
      else if (broken) controller.error(new TypeError('terminated'))
      else controller.close()
    },
  }, { highWaterMark: 0 })
}

/** An answer of server-sent events. */
export function events(parts: readonly string[], broken = false): Response {
  return new Response(pieces(parts, broken), { headers: { 'content-type': 'text/event-stream' } })
}

export const event = (id: string, body: unknown): string => `id: ${id}\ndata: ${JSON.stringify(body)}\n\n`
