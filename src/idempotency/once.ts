import { httpError, type HttpError } from '../http/errors.js'
import { isStreamed, Source, wantsHeadAtOnce, type Chunk } from '../http/body/source.js'
import type {
  HttpRequest, HttpResponse, RequestHeaders, ResponseHeaders,
} from '../http/exchange.js'
import { errorResponse } from '../http/respond.js'
import { Sequence } from '../runtime/maybe-promise.js'
import { newId } from '../runtime/random-id.js'
import { SharedLimit } from '../runtime/shared-limit.js'
import { Gathered } from '../runtime/text.js'
import type { ReplaceOptions, Store } from '../stores/store.js'
import { StoredRecord, UNCHANGED } from '../stores/stored-record.js'
import { waitUntil } from '../stores/watched.js'

/** A response, and the copy of it that is kept for retries. */
export interface KeptResponse {
  readonly response: HttpResponse
  /** JSON body for retries if the body is a stream or too large. Default: a message. */
  readonly short?: string
}

/**
 * Does the work of one key. Calls `began` when it has an effect: then every outcome is kept, even an
 * error such as a 400 after half of the records were written.
 */
export type OnceWork<A> = (began: () => void) => Promise<A>

export interface OnceOptions {
  readonly store: Store
  /** See `claimKey`. */
  readonly key: string
  readonly fingerprint: string
  /** Caller that the stored response counts for. */
  readonly caller: string
  /** Maximum time that a retry waits for the first request, in milliseconds. */
  readonly waitMs: number
  readonly retentionMs: number
  /** Maximum size of a body that is kept. */
  readonly maxBytes: number
}

/** Number of claims that may end without a response before a retry is rejected. */
const TRIES = 10
/** Limits the bodies of waiting requests, in bytes as sent. */
const WAITING = new SharedLimit(4 * 1_048_576, 2 * 1_048_576)
/** Minimum size that counts, which limits the number of these requests to 1024. */
const LEAST_BYTES = 4096
/** Assumed size of a body of unknown length. */
const UNKNOWN_BYTES = 1_048_576

/** Does work once for each key. Without a response, releases the key. */
export async function oncePerKey(
  request: HttpRequest<unknown>, options: OnceOptions, work: OnceWork<KeptResponse | undefined>,
): Promise<HttpResponse | undefined> {
  const { store, key, fingerprint } = options
  const deadline = performance.now() + options.waitMs
  const record = claimRecord(store, key, keptOptions(options))
  for (let tried = 0; tried < TRIES; tried++) {
    const claim: KeyClaim = { fingerprint, holder: newId() }
    if (await record.create(claim)) {
      return perform(request, options.maxBytes, new Lease(record, claim), work)
    }
    let earlier = record.value
    if (earlier?.fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
    if (!earlier.response) {
      earlier = await decided(record, options.caller, deadline - performance.now(), request)
    }
    if (earlier?.response) return replay(earlier.response)
    if (earlier) break
  }
  throw stillRunning()
}

/**
 * Stores a response for a key, so that its work is never done. Returns false if the work has begun
 * before.
 */
export function rejectKey(
  response: HttpResponse, options: Pick<OnceOptions, 'store' | 'key' | 'caller' | 'retentionMs'>,
): Promise<boolean> {
  return claimRecord(options.store, options.key, keptOptions(options))
    .create({ fingerprint: '', holder: newId(), response: toStored(response, Infinity) })
}

function keptOptions({ retentionMs, caller }: Pick<OnceOptions, 'retentionMs' | 'caller'>) {
  return { ttlMs: retentionMs, evictable: true, caller }
}

/** Waits for the response. Resolves to `undefined` if the claim was deleted. */
async function decided(
  record: ClaimRecord, caller: string, timeoutMs: number, { signal, headers }: HttpRequest<unknown>,
): Promise<KeyClaim | undefined> {
  const memory = WAITING.open(caller)
  try {
    if (memory.tryAcquire(bytesOf(headers))) throw stillRunning()
    return await waitUntil(record, isDecided, { timeoutMs, signal })
  } finally {
    memory.release()
  }
}

function bytesOf({ 'content-length': length, 'content-encoding': coding }: RequestHeaders): number {
  const bytes = coding === undefined ? Number(length) : NaN
  return bytes >= 0 ? Math.max(bytes, LEAST_BYTES) : UNKNOWN_BYTES
}

async function perform(
  request: HttpRequest<unknown>, maxBytes: number, lease: Lease,
  work: OnceWork<KeptResponse | undefined>,
): Promise<HttpResponse | undefined> {
  let hasBegun = false
  const keep = ({ response, short }: KeptResponse): Promise<void> => (
    !hasBegun && isRefusal(response)
      ? lease.release() : lease.settle(toStored(response, maxBytes, short))
  )
  let kept: KeptResponse | undefined
  try {
    kept = await work(() => { hasBegun = true })
  } catch (error) {
    await keep({ response: errorResponse(error, request) })
    throw error
  }
  await (kept ? keep(kept) : lease.release())
  return kept?.response
}

/** Statuses of requests without an effect. */
const REFUSED = new Set([
  400, 401, 403, 404, 405, 406, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 428, 429,
  431, 501,
])

function isRefusal({ status, headers }: HttpResponse): boolean {
  return REFUSED.has(status) || (status === 503 && headers['retry-after'] !== undefined)
}

/** Headers that describe a body which is not kept. */
const OF_BODY = [
  'content-length', 'content-encoding', 'content-digest', 'repr-digest', 'etag', 'accept-ranges',
  'content-range',
]

const NOT_KEPT = JSON.stringify({
  message: 'The request was carried out. Its response is too large to be repeated.',
})

/** Maximum size of the kept headers, in UTF-16 units: clients read no more than 16 KiB. */
const MAX_HEADER_LENGTH = 16_384

/** @param short - replaces a body that is a stream, or larger than `maxBytes` */
function toStored(
  { status, headers: all, body }: HttpResponse, maxBytes: number, short = NOT_KEPT,
): StoredResponse {
  const headers = someOf(all)
  if (body === undefined) return { status, headers, body: '' }
  if (typeof body === 'string' && Buffer.byteLength(body) <= maxBytes) {
    return { status, headers, body }
  }
  if (body instanceof Uint8Array && body.byteLength <= maxBytes) {
    return { status, headers, body: Buffer.from(body).toString('base64'), base64: true }
  }
  const kept: ResponseHeaders = { ...headers, 'content-type': 'application/json' }
  for (const name of OF_BODY) delete kept[name]
  return { status, headers: kept, body: short }
}

function someOf(headers: Readonly<ResponseHeaders>): ResponseHeaders {
  let left = MAX_HEADER_LENGTH
  const kept: ResponseHeaders = {}
  for (const [name, value] of Object.entries(headers)) {
    const size = name.length + String(value).length
    if (size > left) continue
    left -= size
    kept[name] = value
  }
  return kept
}

export function replay({ status, headers, body, base64 }: StoredResponse): HttpResponse {
  const again: HttpResponse = { status, headers: { ...headers, 'idempotent-replayed': 'true' } }
  if (body !== '') again.body = base64 ? Buffer.from(body, 'base64') : body
  return again
}

/** Reads a response into memory, so that the work does not depend on the client. */
export async function buffered(response: HttpResponse, maxBytes: number): Promise<HttpResponse> {
  const { body, headers } = response
  if (!isStreamed(body) || wantsHeadAtOnce(headers)) return response
  const source = new Source(body)
  const start = new Gathered()
  while (start.size <= maxBytes) {
    const step = await source.next()
    if (step.done === true) return { ...response, body: start.bytes }
    start.add(typeof step.value === 'string' ? Buffer.from(step.value) : step.value)
  }
  return { ...response, body: rest(start.bytes, source) }
}

async function* rest(start: Chunk, source: Source): AsyncGenerator<Chunk, void, undefined> {
  try {
    yield start
    for (let step = await source.next(); step.done !== true; step = await source.next()) {
      yield step.value
    }
  } finally {
    source.close()
  }
}

/** The claim of a key. Without `response` the work runs, and the claim is a lease. */
export interface KeyClaim {
  readonly fingerprint: string
  /** Id of the request that does the work. */
  readonly holder: string
  readonly response?: StoredResponse
}

interface StoredResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  readonly body: string
  /** True if the body is bytes, stored as base64. */
  readonly base64?: true
}

export type ClaimRecord = StoredRecord<KeyClaim>

/** @param kept - options of a claim with a response; a caller that only reads passes none */
export function claimRecord(store: Store, key: string, kept: ReplaceOptions = {}): ClaimRecord {
  return new StoredRecord(store, key, {
    options: ({ response }) => response ? kept : { ttlMs: LEASE_MS },
  })
}

/** Returns whether the work of a key has ended. */
export function isDecided(claim: KeyClaim | undefined): boolean {
  return !claim || claim.response !== undefined
}

export function stillRunning(): HttpError {
  return httpError('idempotent_request_running', { headers: { 'retry-after': '1' } })
}

/** Time after which the claim of a dead process expires, in milliseconds. */
const LEASE_MS = 30_000
/** Time for which the write of a response is retried while the store fails, in milliseconds. */
const PATIENCE_MS = 300_000

/** Renews a claim while its work runs, and stores the response. */
class Lease {
  private readonly writes = new Sequence()
  private settledAt = Infinity
  private readonly timer = setInterval(() => { void this.write() }, LEASE_MS / 3).unref()

  constructor(private readonly record: ClaimRecord, private claim: KeyClaim) {}

  /** Releases the claim, so that a retry does the work. */
  async release(): Promise<void> {
    clearInterval(this.timer)
    // If the store fails, the claim expires soon.
    await this.writes.run(() => this.put(undefined)).catch(() => undefined)
  }

  /**
   * Stores the response. Resolves after the first attempt, and further attempts follow for five
   * minutes.
   */
  settle(response: StoredResponse): Promise<void> {
    this.claim = { ...this.claim, response }
    this.settledAt = performance.now()
    return this.write()
  }

  private async write(): Promise<void> {
    const { claim } = this
    try {
      await this.writes.run(() => this.put(claim))
      if (claim.response) clearInterval(this.timer)
    } catch {
      if (performance.now() - this.settledAt > PATIENCE_MS) clearInterval(this.timer)
    }
  }

  /**
   * Writes the claim, or deletes it. An expired claim is written again, unless another request has
   * the key.
   */
  private put(claim: KeyClaim | undefined): Promise<void> {
    const { holder } = this.claim
    return this.record.change((now) => now && now.holder !== holder ? UNCHANGED : claim)
  }
}
