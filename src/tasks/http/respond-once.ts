import { httpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { empty } from '../../http/respond.js'
import { CLAIM_MARGIN_MS, onceTask } from '../../idempotency/once-task.js'
import { claimKey } from '../../idempotency/scope.js'
import { fingerprintOf } from '../../idempotency/fingerprint.js'
import { onceAnswer, type KeptAnswer, type OnceWork } from '../../idempotency/once-answer.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import { replay } from '../../idempotency/stored-answer.js'
import { stillRunning, type Claim, type TaskClaim } from '../../idempotency/claim.js'
import type { Accepted } from '../intake/accept.js'
import type { TaskSnapshot } from '../record/codec.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { taskKey } from '../record/ledger.js'
import { belongsTo } from '../record/owner-rules.js'
import { countedAs } from './requester.js'
import { respondAsync, type Asked } from './respond-async.js'
import { comesLater, enterWaiters, respondWithResult } from './respond-direct.js'
import type { Submission } from './submission.js'
import type { WaitingPlace } from '../record/wait.js'

/** How a request wants to be answered. */
export interface Wanted {
  /** Without a preference for an asynchronous answer. */
  readonly direct: boolean
  /** Whether the client asked for 202 by `respond-async`. */
  readonly asked: boolean
  /** Seconds to wait before a 202. */
  readonly wait: number
}

/**
 * Answers a request with an Idempotency-Key. Its work is a task, in whichever way it is answered,
 * so it runs once and does not depend on the connection. Retries get the kind of answer that the
 * first request asked for.
 */
export function respondOnce<C>(settings: EndpointSettings<C>, submission: Submission<C>, key: string, wanted: Wanted): Promise<HttpResponse> {
  if (!wanted.direct) return respond(settings, submission, key, wanted, undefined)
  const place = enterWaiters(settings, submission)
  if (!place) return Promise.resolve(empty(503))
  // No `await`: what waits must not hold the input, which the queue keeps as text.
  return respond(settings, submission, key, wanted, place).finally(() => { place.leave() })
}

async function respond<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, idempotencyKey: string, wanted: Wanted, place: WaitingPlace | undefined,
): Promise<HttpResponse> {
  const { service } = settings
  const { request, requester, definition, input, body, callbackUrl } = submission
  const { owner } = requester
  const key = claimKey(request, owner, idempotencyKey)
  const { claim, taken } = await onceTask<Accepted>(service.store, {
    key, fingerprint: requestFingerprint(request, body), direct: wanted.direct, recordKey: taskKey,
    keptMs: service.pendingMs + (definition.retentionMs ?? service.retentionMs) + CLAIM_MARGIN_MS,
  }, async (id) => service.accept(definition, input, {
    owner, counted: countedAs(requester, request), id, context: settings.context(request), callbackUrl, claim: key,
  }))
  const from = { request, requester }
  if (taken) return answer(settings, from, { claim, task: taken.task, replayed: !taken.created }, wanted, place)
  await submission.discard?.()
  return replayClaim(settings, from, claim, wanted, place)
}

/** Answers with what an earlier request with this key came to. */
async function replayClaim<C>(
  settings: EndpointSettings<C>, from: Asked<C>, claim: Claim, wanted: Wanted, place: WaitingPlace | undefined,
): Promise<HttpResponse> {
  if (claim.kind === 'answer') {
    if (!claim.answer) throw stillRunning()
    return replay(claim.answer)
  }
  const task = await settings.service.read(claim.taskId)
  if (!task || !belongsTo(task, from.requester.owner)) throw claim.accepted ? httpError('idempotent_task_gone') : stillRunning()
  return answer(settings, from, { claim, task, replayed: true }, wanted, place)
}

interface Known {
  readonly claim: Claim
  readonly task: TaskSnapshot
  readonly replayed: boolean
}

/**
 * The first request decides whether the answer is direct, and each request for itself how long it
 * waits.
 */
async function answer<C>(
  settings: EndpointSettings<C>, from: Asked<C>, { claim, task, replayed }: Known, wanted: Wanted, place: WaitingPlace | undefined,
): Promise<HttpResponse> {
  const { asked, wait } = wanted
  if (claim.kind !== 'task' || !claim.direct) return respondAsync(settings, from, task, { asked, replayed, wait: wanted.direct ? 0 : wait })
  if (place) return respondWithResult(settings, from.request, task, place, { replayed, waitMs: settings.syncTimeoutMs, late: comesLater })
  const entered = enterWaiters(settings, from)
  if (!entered) return empty(503)
  try {
    return await respondWithResult(settings, from.request, task, entered, { replayed, waitMs: wait * 1000, late: stillRunning })
  } finally {
    entered.leave()
  }
}

/** `TaskEndpoints.answerOnce`. */
export async function answerOnce<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, body: unknown, work: OnceWork<KeptAnswer>,
): Promise<HttpResponse> {
  const { service: { store, retentionMs, maxResultBytes }, syncTimeoutMs } = settings
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  if (idempotencyKey === undefined) return (await work(() => undefined)).response
  const requester = settings.requester(request)
  const key = claimKey(request, requester.owner, idempotencyKey)
  const fingerprint = requestFingerprint(request, body)
  const once = await onceAnswer(request, { store, key, fingerprint, waitMs: syncTimeoutMs, retentionMs, maxBytes: maxResultBytes }, work)
  if (once === undefined || 'status' in once) return once ?? empty(503)
  return replayClaim(settings, { request, requester }, once satisfies TaskClaim, { direct: true, asked: false, wait: 0 }, undefined)
}

/** The query counts too: it may change what a request means. */
function requestFingerprint(request: HttpRequest<unknown>, body: unknown): string {
  return fingerprintOf([request.search ?? request.query.toString(), body])
}
