import { httpError } from '../http/errors.js'
import type { HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { empty } from '../http/respond.js'
import { isQueueClosing } from '../queues/queue.js'
import { acceptTask } from './accept-task.js'
import { shuttingDown } from './direct-runs.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { claimKey, fingerprintOf, openClaim, updateClaim, type HeldClaim, type SyncAnswer } from './idempotency.js'
import { direct, replayDirect } from './replay.js'
import { runOnce, type Outcome } from './run.js'
import { Stop } from './stop.js'
import type { Submission } from './submission.js'

/** What a run may need to come to an end after its time is over. */
const LEASE_MARGIN_MS = 10_000

/**
 * No preference for an asynchronous answer: the work is done in this process, now, and answered with
 * 200 (SPEC 4.6 rule 5). It is no task: nothing is stored, but for what an Idempotency-Key needs.
 */
export async function answerDirectly<C>(settings: EndpointSettings<C>, submission: Submission<C>): Promise<HttpResponse> {
  const stop = new Stop(submission.request)
  const { direct: runs } = settings.tasks
  runs.enter(stop)
  try {
    return await run(settings, submission, stop)
  } finally {
    runs.leave(stop)
  }
}

async function run<C>(settings: EndpointSettings<C>, submission: Submission<C>, stop: Stop): Promise<HttpResponse> {
  const { tasks, syncTimeoutMs } = settings
  const { request, definition, input, body, requester, idempotencyKey } = submission
  let held: HeldClaim | undefined
  if (idempotencyKey !== undefined) {
    const claim = { kind: 'sync', fingerprint: fingerprintOf(body) } as const
    const opened = await openClaim(tasks.store, claimKey(request, requester, idempotencyKey), claim, syncTimeoutMs + LEASE_MARGIN_MS)
    held = opened.held
    // A key that stands for a task means that task, however this request would have it done.
    if (held.claim.kind === 'task') return acceptTask(settings, submission, false, 0)
    if (!opened.fresh) return replayDirect(held.claim)
  }
  stop.watch()
  const outcome = await runOnce(definition, input, {
    taskId: undefined, attempt: 1, lastAttempt: true, owner: requester.owner, context: settings.context(request), progress: () => undefined,
    stop, timeoutMs: Math.min(definition.timeoutMs, syncTimeoutMs), maxResultBytes: tasks.maxResultBytes,
  })
  // The work is done, or not: what the store says to that changes nothing for this client.
  if (held) await keep(settings, held, toAnswer(outcome)).catch(() => undefined)
  if (outcome.kind === 'completed') return direct(outcome.result)
  if (outcome.kind === 'aborted') {
    if (isQueueClosing(outcome.reason)) throw shuttingDown()
    // The client has gone: nobody reads this.
    return empty(503)
  }
  if (!outcome.timedOut || definition.timeoutMs <= syncTimeoutMs) throw outcome.cause
  throw httpError('sync_timeout', {
    message: 'The work took too long for a direct answer; send "Prefer: respond-async" to have it done in the background.',
    headers: { 'retry-after': '1' }, cause: outcome.cause,
  })
}

async function keep<C>({ tasks }: EndpointSettings<C>, held: HeldClaim, answer: SyncAnswer | undefined): Promise<void> {
  // Nobody knows how it would have ended: a retry may find out.
  if (!answer) await tasks.store.delete(held.key, held.revision)
  else {
    const claim = { kind: 'sync', fingerprint: held.claim.fingerprint, answer } as const
    await updateClaim(tasks.store, held, claim, { ttlMs: tasks.retentionMs, evictable: true })
  }
}

function toAnswer(outcome: Outcome): SyncAnswer | undefined {
  if (outcome.kind === 'completed') return { result: outcome.result }
  if (outcome.kind === 'aborted' || outcome.timedOut) return undefined
  const { status, code, message, details, headers } = readFailure(outcome.cause)
  return { failure: { status, code, message, headers, ...(details ? { details } : {}) } }
}
