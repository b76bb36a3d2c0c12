import type { BodySource, HttpRequest, RequestHeaders } from '../http/exchange.js'
import { CREDENTIALS } from '../idempotency/key.js'
import { PARTIAL_UPLOAD } from './fields.js'
import type { StoredRequest } from './state.js'

/** Fields that describe one message or connection, or the protocol of uploads. */
const OF_MESSAGE = [
  'connection', 'content-digest', 'content-length', 'expect', 'keep-alive', 'te', 'trailer',
  'transfer-encoding', 'upgrade', 'upload-complete', 'upload-draft-interop-version',
  'upload-length', 'upload-offset',
]
/** Credentials are not stored: the handler gets those of the last request. */
const NOT_STORED = new Set<string>([...CREDENTIALS, ...OF_MESSAGE])

/** Returns the parts of a request that its handler needs when the upload is complete. */
export function toStored(request: HttpRequest<unknown>): StoredRequest {
  const { method, path, search, mountPath, params, version } = request
  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !NOT_STORED.has(name)),
  )
  // The media type of the message, not of the content.
  if (headers['content-type'] === PARTIAL_UPLOAD) delete headers['content-type']
  const query = request.query.toString()
  return {
    method, path, mountPath, params, headers, version: version ?? null,
    search: search ?? (query === '' ? '' : `?${query}`),
  }
}

/**
 * Returns the request as if all bytes had come in one piece. Its context, peer and credentials are
 * those of `last`, the request that brought the last bytes. It does not end with its client.
 */
export function toWhole<C>(
  stored: StoredRequest, last: HttpRequest<C>, body: BodySource, size: number,
): HttpRequest<C> {
  const { method, path, search, mountPath, params, version } = stored
  return last.with({
    method, path, search, mountPath, params, body,
    headers: wholeHeaders(stored.headers, last.headers, size),
    signal: () => new AbortController().signal,
    ...version !== null && { version },
  })
}

function wholeHeaders(
  stored: RequestHeaders, last: RequestHeaders, size: number,
): RequestHeaders {
  const credentials = Object.fromEntries(
    CREDENTIALS.map((name) => [name, last[name]]).filter(([, value]) => value !== undefined),
  ) as RequestHeaders
  const { 'repr-digest': digest = stored['repr-digest'] } = last
  return { ...stored, ...credentials, 'repr-digest': digest, 'content-length': String(size) }
}
