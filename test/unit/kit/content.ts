import type { Handler, HttpRequest, HttpResponse, RequestHeaders } from '../../../src/http/exchange.js'
import type { ContentSource } from '../../../src/content/source.js'
import { errorResponse } from '../../../src/http/respond.js'
import { fakeRequest } from './request.js'

export const CHANGED = Date.UTC(2024, 4, 6, 7, 8, 9)
export const CHANGED_TEXT = 'Mon, 06 May 2024 07:08:09 GMT'

/** What a handler answers, as a client would see it; what it throws as the answer to that. */
export interface Seen {
  readonly status: number
  readonly headers: HttpResponse['headers']
  readonly body: string
}

export function request(method: string, headers: RequestHeaders = {}): HttpRequest {
  return { ...fakeRequest({ headers }), method }
}

export async function see(handler: Handler, method = 'GET', headers: RequestHeaders = {}): Promise<Seen | undefined> {
  const asked = request(method, headers)
  let answer: HttpResponse | undefined
  try {
    answer = await handler(asked)
  } catch (error) {
    answer = errorResponse(error, asked)
  }
  return answer && { status: answer.status, headers: answer.headers, body: await textOf(answer.body) }
}

export async function textOf(body: HttpResponse['body']): Promise<string> {
  if (body === undefined || typeof body === 'string') return body ?? ''
  const all: Uint8Array[] = []
  for await (const chunk of body instanceof Uint8Array ? [body] : body) all.push(Buffer.from(chunk as Uint8Array))
  return Buffer.concat(all).toString('latin1')
}

/** A source of text, in a hundred chunks, with a list of what was opened and how it ended. */
export function textSource(
  text: string,
  more: Partial<ContentSource> = {},
): ContentSource & { readonly log: string[] } {
  const log: string[] = []
  const chunk = Math.ceil(text.length / 100)
  return {
    log,
    size: text.length,
    type: 'text/plain',
    etag: '"v1"',
    lastModified: CHANGED + 500,
    name: 'thing.txt',
    async *open(start, end) {
      log.push(`${start}-${end}`)
      try {
        for (let at = start; at < end; at += chunk)
          yield Buffer.from(text.slice(at, Math.min(at + chunk, end)), 'latin1')
      } finally {
        log.push('closed')
      }
    },
    ...more,
  }
}
