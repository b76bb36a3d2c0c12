import { httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { claimKey, fingerprintOf, openClaim, parseIdempotencyKey, type Claim, type HeldClaim } from './idempotency.js'
import type { WriteOptions } from '../stores/store.js'
import { replayDirect } from './replay.js'

/** An answer, and what is kept of it for retries. */
export interface KeptAnswer {
  readonly response: HttpResponse
  /** The body that retries get where the whole is a stream, or larger than `maxResultBytes` of the tasks. Default: `''`. */
  readonly short?: string
}

/** A claim of a process that has gone ends after this. */
const LEASE_MS = 30_000

/** `TaskEndpoints.answerOnce`. */
export async function answerOnce<C>(
  { tasks, requester }: EndpointSettings<C>, request: HttpRequest<C>, body: unknown, work: () => Promise<KeptAnswer>,
): Promise<HttpResponse> {
  const from = requester(request)
  const key = parseIdempotencyKey(request.headers['idempotency-key'])
  if (key === undefined) return (await work()).response
  const { store } = tasks
  const claim: Claim = { kind: 'sync', fingerprint: fingerprintOf(body) }
  const { fresh, held } = await openClaim(store, claimKey(request, from, key), claim, LEASE_MS)
  // A task that was started under this key has another fingerprint; should it not, it is no answer to this.
  if (held.claim.kind === 'task') throw httpError('idempotency_key_reused')
  if (!fresh) return replayDirect(held.claim)
  const lease = new Lease(tasks, held)
  let kept: KeptAnswer
  try {
    kept = await work()
  } catch (error) {
    // Nothing was done, so a retry may try again.
    await lease.end()
    throw error
  }
  await lease.end(kept)
  return kept.response
}

/** Holds a claim for as long as the work goes on. What the store says to that changes nothing for this client. */
class Lease {
  private revision: HeldClaim['revision']
  private writing: Promise<unknown> = Promise.resolve()
  private readonly timer = setInterval(() => { this.write(this.held.claim, { ttlMs: LEASE_MS }) }, LEASE_MS / 3).unref()

  constructor(private readonly tasks: EndpointSettings<unknown>['tasks'], private readonly held: HeldClaim) {
    this.revision = held.revision
  }

  async end(kept?: KeptAnswer): Promise<void> {
    clearInterval(this.timer)
    const { tasks: { store, retentionMs, maxResultBytes }, held } = this
    await this.writing
    if (kept === undefined) {
      try {
        await store.delete(held.key, this.revision)
      } catch {
        // It ends by itself.
      }
      return
    }
    const { response: { status, headers, body }, short = '' } = kept
    const text = typeof body === 'string' && body.length <= maxResultBytes ? body : short
    const claim = { ...held.claim, answer: { response: { status, headers, body: text } } } as Claim
    this.write(claim, { ttlMs: retentionMs, evictable: true })
    await this.writing
  }

  private write(claim: Claim, options: WriteOptions): void {
    const { tasks: { store }, held: { key } } = this
    this.writing = this.writing.then(async () => {
      const outcome = await store.replace(key, JSON.stringify(claim), this.revision, options)
      if (outcome.replaced) this.revision = outcome.revision
    }).catch(() => undefined)
  }
}
