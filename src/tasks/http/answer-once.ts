import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { httpError } from '../../http/errors.js'
import { acknowledged } from '../../http/idempotency-key.js'
import { empty } from '../../http/respond.js'
import { buffered } from '../../idempotency/buffered.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import { KeyedProgress } from '../../idempotency/progress.js'
import { onceAnswer, type KeptAnswer, type OnceWork } from '../../idempotency/once-answer.js'
import { claimKey } from '../../idempotency/scope.js'
import { readClaim, requestFingerprint } from './accept-submission.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/counted-as.js'
import { respond } from './submit.js'

/**
 * Implements `TaskEndpoints.answerOnce`: does work for a direct answer once for each
 * Idempotency-Key, and stores the answer for retries.
 */
export function answerOnce<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, body: unknown, work: OnceWork<KeptAnswer>,
): Promise<HttpResponse> {
  return acknowledged(request, () => answer(settings, request, body, work))
}

async function answer<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, body: unknown, work: OnceWork<KeptAnswer>,
): Promise<HttpResponse> {
  const { service, syncTimeoutMs } = settings
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  if (idempotencyKey === undefined) return (await work(() => undefined)).response
  const requester = settings.requester(request)
  const { store, retentionMs, maxResultBytes: maxBytes } = service
  const outcome = await onceAnswer(request, {
    store, key: claimKey(request, requester.owner, idempotencyKey),
    fingerprint: requestFingerprint(request, body), waitMs: syncTimeoutMs, retentionMs, maxBytes,
    owner: countedAs(request, requester.owner),
  }, async (began) => {
    const kept = await work(began)
    return { ...kept, response: await buffered(kept.response, maxBytes) }
  })
  // The client has disconnected.
  if (outcome === undefined) return empty(503)
  if ('status' in outcome) return outcome
  // An earlier request with this key has started a task.
  const accepted = await readClaim(service, outcome, requester.owner)
  return respond(
    settings,
    { request, requester, direct: true, respondAsync: false, waitSeconds: 0 },
    accepted,
    undefined,
  )
}

/**
 * Implements `TaskEndpoints.progressOf`: the progress of the Idempotency-Key of a request.
 *
 * @throws {HttpError} 400 `invalid_idempotency_key`: the key is missing or not valid
 */
export function progressOf<C>(
  { service, requester }: EndpointSettings<C>, request: HttpRequest<C>,
): KeyedProgress {
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  if (idempotencyKey === undefined) throw httpError('invalid_idempotency_key')
  const by = requester(request)
  return new KeyedProgress(service.store, claimKey(request, by.owner, idempotencyKey), {
    ttlMs: service.retentionMs, owner: countedAs(request, by.owner),
  })
}
