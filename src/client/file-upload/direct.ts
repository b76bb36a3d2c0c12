import { ClientError, isClientError } from '../errors.js'
import { isObject } from '../json-object.js'
import type { Settings } from '../options.js'
import { pause, retryDelay } from '../pause.js'
import { canRetry, readAnswer, send, type Answer, type Call } from '../transport.js'

/** Content of a direct upload, from a byte on. */
export interface Rest {
  readonly body: Blob | ReadableStream<Uint8Array>
  /** True if no bytes are left. */
  readonly isEmpty: boolean
}

/** Errors after which the server tells where the upload continues. */
const BROKEN = new Set(['upload_incomplete', 'incomplete_body'])

/**
 * Sends a direct upload with an Idempotency-Key. If the connection breaks, asks the server how much
 * is committed, and sends the rest.
 *
 * @param open - returns the content from a byte on; called for each attempt
 */
export async function sendDirect(
  settings: Settings, call: Call, open: (start: number) => Promise<Rest>,
): Promise<Answer> {
  let at = 0
  let furthest = 0
  let isBroken = false
  for (let failures = 1; ; failures++) {
    try {
      if (isBroken) {
        const found = await askPosition(settings, call)
        if (typeof found !== 'number') return found
        if (found < at) {
          throw new ClientError('upload_expired', 'The server has forgotten the upload.')
        }
        at = found
      }
      return await sendRest(settings, call, at, await open(at))
    } catch (error) {
      if (at > furthest) failures = 1
      furthest = at
      const isTemporary = isClientError(error) && BROKEN.has(error.code)
      if (failures >= settings.attempts || !(isTemporary || canRetry(error, 'keyed'))) throw error
      isBroken = true
      const ms = retryDelay(settings, failures, error)
      if (ms === undefined) throw error
      await pause(ms, call.signal)
    }
  }
}

function sendRest(
  settings: Settings, call: Call, at: number, { body, isEmpty }: Rest,
): Promise<Answer> {
  return sendOnce(settings, {
    ...call, body: () => (isEmpty ? '' : body),
    headers: {
      ...call.headers,
      'upload-offset': at > 0 ? String(at) : undefined,
      'upload-length': at > 0 && isEmpty ? String(at) : undefined,
    },
  })
}

/** Returns the byte at which the upload continues, or the answer if it is complete. */
async function askPosition(settings: Settings, call: Call): Promise<Answer | number> {
  const headers = { ...call.headers, 'upload-offset': '0' }
  try {
    const answer = await sendOnce(settings, { ...call, headers, body: () => '' })
    if (answer.headers.get('idempotent-replayed') === 'true') return answer
  } catch (error) {
    const bytes = isClientError(error) ? committedBytes(error) : undefined
    if (bytes === undefined) throw error
    return bytes
  }
  const message = 'The connection broke, and the server does not tell how much it has processed.'
  throw new ClientError('not_resumable', message)
}

function committedBytes({ code, body }: ClientError): number | undefined {
  if (code !== 'upload_incomplete' || !isObject(body)) return undefined
  const { committed } = body
  const bytes = isObject(committed) ? committed['bytes'] : undefined
  return typeof bytes === 'number' ? bytes : undefined
}

function sendOnce(settings: Settings, call: Call): Promise<Answer> {
  return send(settings, call, readAnswer)
}

/**
 * Returns a stream without its first bytes.
 *
 * @throws {ClientError} `content_lost`: the stream is shorter
 */
export async function restOf(
  stream: ReadableStream<Uint8Array>, start: number,
): Promise<Rest> {
  if (start === 0) return { body: stream, isEmpty: false }
  const reader = stream.getReader()
  let first: Uint8Array | undefined
  for (let left = start; first === undefined;) {
    const { done, value } = await reader.read()
    if (done) {
      if (left > 0) throw new ClientError('content_lost', 'The server has more than the content.')
      return { body: new Blob([]), isEmpty: true }
    }
    if (value.length > left) first = value.subarray(left)
    left = Math.max(0, left - value.length)
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = first ? { done: false, value: first } : await reader.read()
      first = undefined
      if (done || value === undefined) controller.close()
      else controller.enqueue(value)
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 })
  return { body, isEmpty: false }
}
