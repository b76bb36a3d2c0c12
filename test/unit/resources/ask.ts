// Asks a handler without a port.
import { guard } from '../../../src/http/boundary.js'
import { plainRequest } from '../../../src/http/request.js'
import type { Handler, RequestHeaders } from '../../../src/http/exchange.js'

export interface Asked {
  readonly headers?: RequestHeaders
  /** Sent as JSON, unless `headers` say otherwise; text as it is. */
  readonly body?: unknown
  readonly params?: Record<string, string>
  readonly context?: unknown
  readonly mountPath?: string
}

export interface Told {
  readonly status: number
  readonly headers: Record<string, string | string[]>
  readonly text: string
  readonly json: ReturnType<typeof JSON.parse>
}

/** Failures that were no expected answer, since the file began. */
export const faults: unknown[] = []

export async function ask(handler: Handler<unknown>, method: string, target: string, asked: Asked = {}): Promise<Told> {
  const { headers = {}, body, params = {}, context, mountPath = '' } = asked
  const [path = '', search = ''] = target.split('?')
  const bytes = Buffer.from(body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body))
  const request = plainRequest({
    method,
    path,
    mountPath,
    params,
    query: new URLSearchParams(search),
    context,
    peerAddress: undefined,
    raw: undefined,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    signal: new AbortController().signal,
    body: {
      parsed: undefined,
      bytes: async (limit) => (bytes.length > limit ? undefined : bytes),
      stream: async function* () {
        yield bytes
      },
    },
  })
  const answer = await guard(handler, { onError: (error) => faults.push(error) })(request)
  const { status, headers: fields, body: sent } = answer ?? { status: 0, headers: {} }
  const text = typeof sent === 'string' ? sent : ''
  return {
    status,
    headers: fields,
    text,
    json: text.startsWith('{') && /[/+]json$/.test(String(fields['content-type'])) ? JSON.parse(text) : undefined,
  }
}
