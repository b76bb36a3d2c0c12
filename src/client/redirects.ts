import { ClientError } from './errors.js'
import { serverUrl, type Settings } from './options.js'
import type { Scope } from './scope.js'

/** One request, before redirects. */
export interface Sending {
  readonly method: string
  readonly url: URL
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Blob | ReadableStream<Uint8Array> | string | undefined
  /** Origin that may receive all header fields. */
  readonly origin: string
}

/** As many as `fetch` follows. */
const MAX_REDIRECTS = 20
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const SAFE = new Set(['GET', 'HEAD'])
/** Fields that are no secret and identify nobody. Any other origin receives only these. */
const HARMLESS = new Set([
  'accept', 'if-none-match', 'if-range', 'last-event-id', 'prefer', 'range', 'want-repr-digest',
])

/**
 * Sends a request and follows redirects (RFC 9110 section 15.4). Another origin receives neither a
 * body nor a field that may be a credential, and no request that changes something. Once such
 * fields were left out, they are not sent again, because the other origin chose the next target.
 *
 * `fetch` itself removes `authorization` only, and repeats the body after a 307 or 308. So it
 * follows only for requests that may go anywhere.
 *
 * @throws {ClientError} `other_origin`, `redirect_not_followed`, or `bad_answer` for a Location
 * that is not an http or https URL
 */
export async function fetchFollowing(
  { fetch }: Settings, sending: Sending, scope: Scope,
): Promise<{ readonly response: Response, readonly url: string }> {
  let { method, url, headers, body, origin } = sending
  for (let redirects = 0; ; redirects++) {
    if (url.origin !== origin) headers = only(headers, (name) => HARMLESS.has(name))
    const isPublic = SAFE.has(method) && Object.keys(headers).every((name) => HARMLESS.has(name))
    const response = await fetch(url.href, {
      method, headers, cache: 'no-store', redirect: isPublic ? 'follow' : 'manual',
      signal: scope.signal, ...body !== undefined && { body },
      // Node requires this for a streamed body.
      ...body instanceof ReadableStream && { duplex: 'half' },
    } as RequestInit)
    scope.touch()
    const { status, type } = response
    if (type === 'opaqueredirect') {
      throw notFollowed('A browser does not tell where to, so the request was not sent there.')
    }
    const location = REDIRECTS.has(status) ? response.headers.get('location') : null
    if (location === null) return { response, url: response.url || url.href }
    response.body?.cancel().catch(() => undefined)
    if (redirects === MAX_REDIRECTS) {
      throw notFollowed(`That was redirect ${MAX_REDIRECTS + 1} in a row.`, status)
    }
    const from = url.origin
    url = serverUrl(location, url)
    if (status === 303 ? method !== 'HEAD' : status < 303 && method === 'POST') {
      method = 'GET'
      body = undefined
      headers = only(headers, (name) => name !== 'content-type' && name !== 'idempotency-key')
    }
    if (body instanceof ReadableStream) {
      throw notFollowed('A streamed body can be sent only once.', status)
    }
    if (url.origin === from) continue
    origin = ''
    if (SAFE.has(method)) continue
    throw new ClientError('other_origin', `The server redirected this ${method} to another`
      + ` origin, ${url.origin}. It was not sent there. Use the final URL.`, { status })
  }
}

function notFollowed(why: string, status?: number): ClientError {
  const message = `The server redirected the request. ${why} Use the final URL.`
  return new ClientError('redirect_not_followed', message, { ...status && { status } })
}

function only(
  headers: Readonly<Record<string, string>>, keep: (name: string) => boolean,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => keep(name)))
}
