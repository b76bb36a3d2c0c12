import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { jsonText } from '../../http/respond.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { belongsTo } from '../record/ids.js'
import { isFinalStatus } from '../../engine/task.js'
import { resultText, toTaskError } from '../record/view.js'
import { waitFor } from '../record/subscriptions.js'
import type { AcceptedTask } from './accept-submission.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/requester.js'
import { pollAfter } from './status-headers.js'
import type { Submitter } from './submission.js'

/**
 * Answers a request whose task was accepted: 202, or, if the task ends within `waitSeconds` (RFC
 * 7240 section 4.3), its result or failure. `Location` names the status resource in each case.
 */
export function respondAccepted<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, { task, replayed }: AcceptedTask,
): MaybePromise<HttpResponse> {
  const { request, direct, respondAsync, waitSeconds } = submitter
  // A direct request gets a 202 only if the first request with its key asked for one. It does not
  // wait.
  if (waitSeconds === 0 || direct) {
    return accepted(settings, request, task, { replayed, applied: respondAsync && 'respond-async' })
  }
  return respondAfterWait(settings, submitter, task, replayed)
}

async function respondAfterWait<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, task: TaskSnapshot, replayed: boolean,
): Promise<HttpResponse> {
  const { request, respondAsync, waitSeconds } = submitter
  const wait = `wait=${String(waitSeconds)}`
  const now = await waitForEnd(settings, submitter, task)
  if (!isFinalStatus(now.state)) {
    return accepted(settings, request, now, {
      replayed, applied: respondAsync && `respond-async, ${wait}`,
    })
  }
  const headers: Record<string, string> = {
    'location': settings.path.location(request.mountPath, task.id),
    'vary': 'Prefer',
    'preference-applied': wait,
    ...replayed && { 'idempotent-replayed': 'true' },
  }
  if (now.state === 'completed') return jsonText(200, resultText(now), headers)
  const failure = toTaskError(now)
  addFailureHeaders(failure, headers)
  throw failure
}

/** Returns the task as it is when it ends, or when the time is over. */
async function waitForEnd<C>(
  { service }: EndpointSettings<C>, { request, requester, waitSeconds }: Submitter<C>,
  task: TaskSnapshot,
): Promise<TaskSnapshot> {
  const slot = service.waiters.tryAcquire(request.signal, countedAs(request, requester.owner))
  if (!slot) return task
  try {
    const isVisible = (now: TaskSnapshot) => belongsTo(now, task.owner)
    const options = { timeoutMs: waitSeconds * 1000, signal: slot.signal, isVisible }
    return await waitFor(service.subscriptions, task.id, options, true) ?? task
  } finally {
    slot.release()
  }
}

/** Returns the 202: the path of the status resource, and what it shows now. */
function accepted<C>(
  { path, format }: EndpointSettings<C>, { mountPath }: HttpRequest<C>, task: TaskSnapshot,
  { replayed, applied }: { readonly replayed: boolean, readonly applied: string | false },
): HttpResponse {
  const location = path.location(mountPath, task.id)
  const headers: ResponseHeaders = {
    'content-type': 'application/json', location, 'content-location': location, 'vary': 'Prefer',
  }
  if (format.acceptedFields) Object.assign(headers, format.acceptedFields(location))
  if (!isFinalStatus(task.state)) headers['retry-after'] = pollAfter(task)
  if (applied) headers['preference-applied'] = applied
  if (replayed) headers['idempotent-replayed'] = 'true'
  return { status: 202, headers, body: format.toText(task, location) }
}
