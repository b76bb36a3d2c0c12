import { httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../http/exchange.js'
import { newId } from '../http/random-id.js'
import { jsonText } from '../http/respond.js'
import type { TaskSnapshot } from './codec.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { CLAIM_MARGIN_MS, claimKey, fingerprintOf, openClaim, updateClaim, type HeldClaim } from './idempotency.js'
import { replayDirect } from './replay.js'
import { belongsTo, countedAs } from './requester.js'
import { isFinal } from './state.js'
import { pollAfter } from './status-headers.js'
import type { Submission } from './submission.js'
import { toTaskError } from './view.js'
import { waitFor } from './wait.js'

/** Takes a task in and answers 202, or with its result when it ends within `wait` seconds. */
export async function acceptTask<C>(settings: EndpointSettings<C>, submission: Submission<C>, asked: boolean, wait: number): Promise<HttpResponse> {
  const { tasks } = settings
  const { request, definition, input, body, requester, idempotencyKey, callbackUrl } = submission
  const context = settings.context(request)
  // The longest that its record may live, should nobody be there to settle the claim.
  const ttlMs = tasks.pendingMs + (definition.retentionMs ?? tasks.retentionMs) + CLAIM_MARGIN_MS
  let claim: HeldClaim | undefined
  let id: string | undefined
  if (idempotencyKey !== undefined) {
    const key = claimKey(request, requester, idempotencyKey)
    const fingerprint = fingerprintOf(body)
    const opened = await openClaim(tasks.store, key, { kind: 'task', fingerprint, taskId: newId(), accepted: false }, ttlMs)
    claim = opened.held
    if (claim.claim.kind === 'sync') return replayDirect(claim.claim)
    if (claim.claim.accepted) {
      const task = await tasks.look(claim.claim.taskId)
      if (!task || !belongsTo(task, requester.owner)) throw httpError('idempotent_task_gone')
      await submission.discard?.()
      return accepted(settings, request, task, { asked, replayed: true })
    }
    id = claim.claim.taskId
  }
  const { task, created } = await tasks.accept(definition, input, {
    owner: requester.owner, counted: countedAs(requester, request), id, context, callbackUrl, claim: claim?.key,
  })
  if (claim?.claim.kind === 'task') {
    // The task is in, whether this lands or not; a retry, or the end of the task, writes it too.
    await updateClaim(tasks.store, claim, { ...claim.claim, accepted: true }).catch(() => undefined)
  }
  if (wait === 0) return accepted(settings, request, task, { asked, replayed: !created })
  const now = await waitForIt(settings, submission, task, wait)
  if (!isFinal(now.state)) return accepted(settings, request, now, { asked, replayed: !created, waited: wait })
  if (now.state !== 'completed') throw toTaskError(now)
  const { result } = JSON.parse(now.face) as { result: unknown }
  return jsonText(200, JSON.stringify(result), { vary: 'Prefer', 'preference-applied': `wait=${String(wait)}` })
}

/** `respond-async, wait=N` (RFC 7240 4.3): the task when it has ended, or as it is when the time is over. */
async function waitForIt<C>(
  settings: EndpointSettings<C>, { request, requester }: Submission<C>, task: TaskSnapshot, seconds: number,
): Promise<TaskSnapshot> {
  const { feeds, waiters } = settings.tasks
  const place = waiters.enter(request.signal, countedAs(requester, request))
  if (!place) return task
  try {
    const isVisible = (now: TaskSnapshot) => belongsTo(now, task.owner)
    return await waitFor(feeds, task.id, { timeoutMs: seconds * 1000, signal: place.signal, isVisible }) ?? task
  } finally {
    place.leave()
  }
}

interface AcceptedHow {
  /** Whether the client asked for it by `respond-async`. */
  readonly asked: boolean
  readonly replayed: boolean
  /** Seconds that were waited for the end before answering. */
  readonly waited?: number
}

/** The 202: where the status is, and what it shows now. */
export function accepted<C>(settings: EndpointSettings<C>, request: HttpRequest<C>, task: TaskSnapshot, how: AcceptedHow): HttpResponse {
  const location = settings.path.of(request.mountPath, task.id)
  const headers: ResponseHeaders = {
    'content-type': 'application/json', location, 'content-location': location, 'vary': 'Prefer',
  }
  if (settings.face.acceptedFields) Object.assign(headers, settings.face.acceptedFields(location))
  if (!isFinal(task.state)) headers['retry-after'] = pollAfter(task)
  if (how.asked) headers['preference-applied'] = how.waited === undefined ? 'respond-async' : `respond-async, wait=${String(how.waited)}`
  if (how.replayed) headers['idempotent-replayed'] = 'true'
  return { status: 202, headers, body: settings.face.toText(task, location) }
}
