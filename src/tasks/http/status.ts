import { negotiate } from '../../http/fields/accept.js'
import { after, type MaybePromise } from '../../runtime/maybe-promise.js'
import { httpError, type HttpError } from '../../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import {
  etagMatches, evaluatePreconditions, type PreconditionOutcome,
} from '../../http/fields/preconditions.js'
import { parsePrefer } from '../../http/fields/prefer.js'
import { refuseIdempotencyKey, empty, jsonText, stream } from '../../http/respond.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { eventId, eventStream } from './event-stream.js'
import { statusOperations } from './operations.js'
import { belongsTo, type OwnerId } from '../record/ids.js'
import { type Requester, countedAs } from '../../http/requester.js'
import type { EncodedBodies } from './encoded-bodies.js'
import { isFinalStatus } from '../../engine/task.js'
import { etagOf, statusHeaders } from './status-headers.js'
import { waitFor } from '../record/subscriptions.js'
import type { Condition } from '../core/change-task.js'
import { toSnapshot } from '../record/snapshot.js'
import type { TaskFormatAnswer } from './formats.js'

const OK: TaskFormatAnswer = { status: 200 }
const TYPES = ['application/json', 'text/event-stream'] as const

/** The methods of the status resource, in the order in which `Allow` lists them. */
const ALLOW = 'GET, HEAD, DELETE, OPTIONS'

/**
 * Creates the handler of the status resource (SPEC 4.6, 4.7): GET and HEAD show a task, DELETE
 * cancels or deletes it, OPTIONS answers `Allow`, and any other method is a 405.
 */
export function createStatus<C>(settings: EndpointSettings<C>): Handler<C> {
  const { path } = settings
  const handler = (request: HttpRequest<C>) => {
    // The path as mounted comes first: a host's own `:id` may name something else, such as a
    // tenant.
    const idInPath = path.idIn(request.mountPath, request.path)
    const id = idInPath ?? request.params['id']
    if (idInPath === undefined) path.checkMount(request, id)
    else path.confirm()
    if (id === undefined) return undefined
    const { method } = request
    if (method === 'GET' || method === 'HEAD') return show(settings, request, id)
    if (method === 'DELETE') {
      refuseIdempotencyKey(request)
      return remove(settings, request, id)
    }
    // Below the route of a host, `id` may name something else: that path is the host's.
    if (idInPath === undefined && !request.path.endsWith(`/${id}`)) return undefined
    if (method === 'OPTIONS') return { status: 200, headers: { allow: ALLOW }, body: '' }
    throw httpError('method_not_allowed', { headers: { allow: ALLOW } })
  }
  return describe(handler, statusOperations(path.template, settings.format, settings.remove))
}

function show<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): MaybePromise<HttpResponse> {
  const requester = settings.requester(request)
  return after(settings.service.read(id), (task) => showTask(settings, request, requester, task))
}

function showTask<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, requester: Requester,
  task: TaskSnapshot | undefined,
): MaybePromise<HttpResponse> {
  if (!task || !belongsTo(task, requester.owner)) throw httpError(settings.format.notFound)
  const { accept, prefer } = request.headers
  if (accept !== undefined && accept !== '*/*') {
    const type = negotiate(accept, TYPES)
    if (type === undefined) {
      throw httpError('not_acceptable', { headers: { vary: 'Accept, Authorization' } })
    }
    if (type === 'text/event-stream' && request.method === 'GET') {
      return events(settings, request, requester, task)
    }
  }
  if (prefer !== undefined && request.method === 'GET') {
    const { wait } = parsePrefer(prefer)
    if (wait !== undefined && wait > 0) {
      return poll(settings, request, requester, task, Math.min(wait, settings.maxWaitSeconds))
    }
  }
  return answer(settings, request, task)
}

function answer<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, task: TaskSnapshot,
  shared?: EncodedBodies,
): HttpResponse {
  const headers = statusHeaders(task)
  const { status, text } = settings.format.shown?.(task) ?? OK
  // RFC 9110 section 13.2.1: conditions are about answers that would be a success.
  if (status < 300 && isConditional(request)) {
    if (requirePreconditions(request, task) === 'not-modified') return empty(304, headers)
  }
  headers['content-type'] = 'application/json'
  const statusUrl = settings.path.of(request.mountPath, task.id)
  return {
    status,
    headers,
    body: text ?? (shared ? shared.body(task, statusUrl) : settings.format.toText(task, statusUrl)),
  }
}

/** A long poll: with If-None-Match until the tag differs, without it until the task is final. */
async function poll<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, requester: Requester, task: TaskSnapshot,
  seconds: number,
): Promise<HttpResponse> {
  const { service, format } = settings
  const known = request.headers['if-none-match']
  const until = known === undefined
    ? (now: TaskSnapshot) => isFinalStatus(now.state)
    : (now: TaskSnapshot) => !etagMatches(known, etagOf(now), 'weak')
  let now: TaskSnapshot | undefined = task
  // A final task can't change: it is not waited for.
  if (!isFinalStatus(task.state) && !until(task)) {
    const slot = service.waiters.tryAcquire(request.signal, countedAs(request, requester.owner))
    if (!slot) return answer(settings, request, task)
    try {
      const options = {
        timeoutMs: seconds * 1000,
        signal: slot.signal,
        isVisible: (now: TaskSnapshot) => belongsTo(now, requester.owner),
        until,
      }
      now = await waitFor(service.subscriptions, task.id, options, true)
    } finally {
      slot.release()
    }
    if (!now) throw httpError(format.notFound)
  }
  const response = answer(settings, request, now, settings.bodies)
  response.headers['preference-applied'] = `wait=${String(seconds)}`
  return response
}

function events<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, requester: Requester, task: TaskSnapshot,
): HttpResponse {
  const { service, path, bodies } = settings
  const field = request.headers['last-event-id']
  const lastEventId = typeof field === 'string' ? field : undefined
  // 204 is how a server tells an EventSource to stop reconnecting.
  if (isFinalStatus(task.state) && lastEventId === eventId(task)) {
    return empty(204, { vary: 'Accept, Authorization', 'cache-control': 'no-store' })
  }
  const counted = countedAs(request, requester.owner)
  const slot = service.waiters.tryAcquire(request.signal, counted)
  if (!slot) throw tooManyStreams(service.waiters.isFullFor(counted))
  const statusUrl = path.of(request.mountPath, task.id)
  return stream(200, eventStream(service.subscriptions, task, (now) => bodies.event(now, statusUrl), lastEventId, slot), {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'vary': 'Accept, Authorization',
    // Proxies that buffer would hold events back.
    'x-accel-buffering': 'no',
  })
}

function tooManyStreams(own: boolean): HttpError {
  const headers = { 'retry-after': '5' }
  if (!own) {
    return httpError('service_unavailable', {
      message: 'Too many event streams are open; poll instead.', headers,
    })
  }
  return httpError('too_many_requests', {
    message: 'You wait for too many tasks at once; close an event stream, or poll instead.',
    headers,
  })
}

/**
 * Cancels an unfinished task. Deletes a final one if the option `remove` allows it and If-Match has
 * its tag. Without a tag, a cancelled task stays as it is and the response is that of its cancel: the
 * request may be a repetition, and DELETE is idempotent (RFC 9110 section 9.3.5).
 */
async function remove<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): Promise<HttpResponse> {
  const { owner } = settings.requester(request)
  const isVisible = (task: { readonly owner?: OwnerId }) => belongsTo(task, owner)
  const check = preconditionOf(request)
  const namesTag = hasTag(request.headers['if-match'])
  if (namesTag && settings.remove === 'forget') {
    const forgotten = await settings.service.forget(id, isVisible, check)
    if (forgotten === 'deleted') return empty(204)
  }
  // A task that ends between the two calls is not deleted, because the client has not seen its end.
  const outcome = await settings.service.cancel(id, isVisible, check)
  if (!outcome) throw httpError(settings.format.notFound)
  if (!outcome.moved && (namesTag || outcome.task.state !== 'cancelled')) {
    if (settings.remove === 'cancel') throw httpError('task_already_final')
    const message = 'The task has ended; to delete it, send its ETag in If-Match.'
    throw httpError('precondition_required', { message })
  }
  if (!outcome.moved && isConditional(request)) requirePreconditions(request, outcome.task)
  return jsonText(
    200,
    settings.format.toText(outcome.task, settings.path.of(request.mountPath, id)),
    statusHeaders(outcome.task),
  )
}

/** Returns true for an If-Match with an entity tag. `*` matches every state of a task. */
function hasTag(ifMatch: string | readonly string[] | undefined): boolean {
  return ifMatch !== undefined && String(ifMatch).trim() !== '*'
}

/** Returns a function that throws 412 `precondition_failed` for a task whose tag does not match. */
function preconditionOf<C>(request: HttpRequest<C>): Condition | undefined {
  if (!isConditional(request)) return undefined
  return (task) => { requirePreconditions(request, toSnapshot(task)) }
}

function isConditional<C>({ headers }: HttpRequest<C>): boolean {
  return headers['if-match'] !== undefined || headers['if-none-match'] !== undefined
}

/** @throws {HttpError} 412 `precondition_failed` */
function requirePreconditions<C>(
  { method, headers }: HttpRequest<C>, task: TaskSnapshot,
): Exclude<PreconditionOutcome, 'failed'> {
  const etag = etagOf(task)
  const outcome = evaluatePreconditions({ method, headers, exists: true, etag })
  if (outcome === 'failed') throw httpError('precondition_failed', { headers: { etag } })
  return outcome
}
