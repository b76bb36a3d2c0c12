import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { jsonText } from '../../http/respond.js'
import type { TaskSnapshot } from '../record/codec.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { belongsTo } from '../record/owner-rules.js'
import { countedAs } from './requester.js'
import { isFinal } from '../record/state.js'
import { pollAfter } from './status-headers.js'
import type { Submission } from './submission.js'
import { resultText, toTaskError } from '../record/view.js'
import { waitFor } from '../record/wait.js'

/** A request and the party behind it. */
export type Asked<C> = Pick<Submission<C>, 'request' | 'requester'>

/** What is said of a task that was accepted. */
export interface AcceptedHow {
  /** Whether the client asked for it by `respond-async`. */
  readonly asked: boolean
  /** An earlier request with this key started the task. */
  readonly replayed: boolean
  /** Seconds to wait for the end of the task before answering. */
  readonly wait: number
}

/**
 * Answers a request whose task was accepted: 202, or, if the task ends within `wait` seconds (RFC
 * 7240 section 4.3), its result or failure. `Location` names the status resource in each case.
 */
export async function respondAsync<C>(
  settings: EndpointSettings<C>, from: Asked<C>, task: TaskSnapshot, how: AcceptedHow,
): Promise<HttpResponse> {
  const { request } = from
  const { asked, replayed, wait } = how
  if (wait === 0) return accepted(settings, request, task, { asked, replayed })
  const now = await waitForIt(settings, from, task, wait)
  if (!isFinal(now.state)) return accepted(settings, request, now, { asked, replayed, waited: wait })
  const headers: Record<string, string> = {
    'location': settings.path.location(request.mountPath, task.id), 'vary': 'Prefer', 'preference-applied': `wait=${String(wait)}`,
    ...replayed && { 'idempotent-replayed': 'true' },
  }
  if (now.state === 'completed') return jsonText(200, resultText(now), headers)
  const failure = toTaskError(now)
  addFailureHeaders(failure, headers)
  throw failure
}

async function waitForIt<C>(
  settings: EndpointSettings<C>, { request, requester }: Asked<C>, task: TaskSnapshot, seconds: number,
): Promise<TaskSnapshot> {
  const { feeds, waiters } = settings.service
  const place = waiters.enter(request.signal, countedAs(requester, request))
  if (!place) return task
  try {
    const isVisible = (now: TaskSnapshot) => belongsTo(now, task.owner)
    return await waitFor(feeds, task.id, { timeoutMs: seconds * 1000, signal: place.signal, isVisible }, true) ?? task
  } finally {
    place.leave()
  }
}

/** The 202: where the status is, and what it shows now. */
function accepted<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, task: TaskSnapshot,
  { asked, replayed, waited }: Omit<AcceptedHow, 'wait'> & { readonly waited?: number },
): HttpResponse {
  const location = settings.path.location(request.mountPath, task.id)
  const headers: ResponseHeaders = {
    'content-type': 'application/json', location, 'content-location': location, 'vary': 'Prefer',
  }
  if (settings.face.acceptedFields) Object.assign(headers, settings.face.acceptedFields(location))
  if (!isFinal(task.state)) headers['retry-after'] = pollAfter(task)
  if (asked) headers['preference-applied'] = waited === undefined ? 'respond-async' : `respond-async, wait=${String(waited)}`
  if (replayed) headers['idempotent-replayed'] = 'true'
  return { status: 202, headers, body: settings.face.toText(task, location) }
}
