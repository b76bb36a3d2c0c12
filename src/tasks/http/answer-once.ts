import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { acknowledged, empty } from '../../http/respond.js'
import { buffered } from '../../idempotency/buffered.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import { onceAnswer, type KeptAnswer, type OnceWork } from '../../idempotency/once-answer.js'
import { claimKey } from '../../idempotency/scope.js'
import { findTask, requestFingerprint, type AcceptedTask } from './accept-submission.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/requester.js'
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
  const key = claimKey(request, requester.owner, idempotencyKey)
  const fingerprint = requestFingerprint(request, body)
  let earlier: AcceptedTask | undefined
  const response = await onceAnswer(request, {
    store, key, fingerprint, waitMs: syncTimeoutMs, retentionMs, maxBytes,
    owner: countedAs(request, requester.owner),
  }, async (began) => {
    // Under the claim, because a request for the background creates its task under the same claim.
    earlier = await findTask(service, key, requester.owner, fingerprint)
    if (earlier) return undefined
    const kept = await work(began)
    return { ...kept, response: await buffered(kept.response, maxBytes) }
  })
  if (earlier) {
    const submitter = { request, requester, direct: true, respondAsync: false, waitSeconds: 0 }
    return respond(settings, submitter, earlier, undefined)
  }
  // Otherwise the client has disconnected.
  return response ?? empty(503)
}
