import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import { countedAs } from '../../http/requester.js'
import { httpError, notAcceptable } from '../../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import { negotiate } from '../../http/headers/accept.js'
import { etagMatches } from '../../http/headers/preconditions.js'
import { parsePrefer } from '../../http/headers/prefer.js'
import {
  refuseIdempotencyKey, empty, isNotModified, jsonText, respondAllow, stream,
} from '../../http/respond.js'
import { cancelTask, deleteTask } from '../core/change-task.js'
import { pausesWait, waitFor } from '../record/subscriptions.js'
import { acquireSlot, eventStream, NOT_STORED, STREAM_HEADERS } from './event-stream.js'
import {
  etagOf, eventId, statusHeaders, type EncodedBodies, type TaskFormatResponse,
} from './formats.js'
import { statusOperations, withOwner } from './operations.js'
import { findFor, scopeOf, waitsAs, type EndpointSettings } from './settings.js'

const OK: TaskFormatResponse = { status: 200 }
const TYPES = ['application/json', 'text/event-stream'] as const

const ALLOW = 'GET, HEAD, DELETE, OPTIONS'

export function createStatus<C>(settings: EndpointSettings<C>): Handler<C> {
  const { path } = settings
  const handler = (request: HttpRequest<C>) => {
    // The path comes first: an `:id` of the application's route may name something else, such as a tenant.
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
    if (idInPath === undefined && !request.path.endsWith(`/${id}`)) return undefined
    return respondAllow(request, ALLOW)
  }
  const operations = statusOperations(path.template, settings.format, settings.remove)
  return describe(handler, withOwner(settings, operations))
}

async function show<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): Promise<HttpResponse> {
  const { maxWaitSeconds } = settings
  const task = await findFor(settings, request, id)
  const { accept, prefer } = request.headers
  if (accept !== undefined && accept !== '*/*') {
    const type = negotiate(accept, TYPES)
    if (type === undefined) throw notAcceptable(TYPES, NOT_STORED.vary)
    if (type === 'text/event-stream' && request.method === 'GET') {
      return openEvents(settings, request, task)
    }
  }
  const wait = request.method === 'GET' ? parsePrefer(prefer).wait ?? 0 : 0
  if (wait > 0) return poll(settings, request, task, Math.min(wait, maxWaitSeconds))
  return showNow(settings, request, task)
}

function showNow<C>(
  { format, path }: EndpointSettings<C>, request: HttpRequest<C>, task: StoredTask,
  shared?: EncodedBodies,
): HttpResponse {
  const headers = statusHeaders(task)
  const { status, text } = format.shown?.(task) ?? OK
  // RFC 9110 section 13.2.1: conditions are about responses that would be a success.
  if (status < 300 && isConditional(request) && isNotModified(request, etagOf(task))) {
    return empty(304, headers)
  }
  headers['content-type'] = 'application/json'
  const statusUrl = path.of(request.mountPath, task.id)
  const body = text ?? (shared ? shared.body(task, statusUrl) : format.toText(task, statusUrl))
  return { status, headers, body }
}

/**
 * Waits until the tag differs from If-None-Match. Without If-None-Match, waits until the task is
 * final or asks.
 */
async function poll<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, task: StoredTask, seconds: number,
): Promise<HttpResponse> {
  const { core: { waiters, subscriptions }, format, bodies } = settings
  const known = request.headers['if-none-match']
  const until = known === undefined
    ? pausesWait
    : (now: StoredTask) => !etagMatches(known, etagOf(now), 'weak')
  let now: StoredTask | undefined = task
  if (!isFinalStatus(task.status) && !until(task)) {
    const slot = waiters.tryAcquire(request.signal, countedAs(request, waitsAs(settings, task)))
    if (!slot) return showNow(settings, request, task)
    try {
      const options = { timeoutMs: seconds * 1000, signal: slot.signal, until }
      now = await waitFor(subscriptions, task.id, task, options)
    } finally {
      slot.release()
    }
    if (!now) throw httpError(format.notFound)
  }
  const response = showNow(settings, request, now, bodies)
  response.headers['preference-applied'] = `wait=${seconds}`
  return response
}

function openEvents<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, task: StoredTask,
): HttpResponse {
  const { core: { waiters, subscriptions }, path, bodies } = settings
  const lastId = request.headers['last-event-id']
  const lastEventId = typeof lastId === 'string' ? lastId : undefined
  // 204 is how a server tells an EventSource to stop reconnecting.
  if (isFinalStatus(task.status) && lastEventId === eventId(task)) {
    return empty(204, NOT_STORED)
  }
  const slot = acquireSlot(waiters, request, waitsAs(settings, task))
  const statusUrl = path.of(request.mountPath, task.id)
  const eventOf = (now: StoredTask) => bodies.event(now, statusUrl)
  return stream(200, eventStream(subscriptions, task, slot, { eventOf, lastEventId }), {
    ...STREAM_HEADERS, 'content-type': 'text/event-stream; charset=utf-8',
  })
}

/**
 * Cancels an unfinished task. Deletes a final task if the option `remove` allows this and If-Match
 * has its tag. If If-Match is missing, a cancelled task gets 200 again, because the request may be
 * a repetition.
 */
async function remove<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): Promise<HttpResponse> {
  const { core } = settings
  const of = await scopeOf(settings, request)
  const check = isConditional(request)
    ? (task: StoredTask) => { isNotModified(request, etagOf(task)) } : undefined
  // `*` matches every state of a task.
  const { 'if-match': ifMatch = '*' } = request.headers
  const namesTag = String(ifMatch).trim() !== '*'
  if (namesTag && settings.remove === 'forget') {
    const forgotten = await deleteTask(core, id, of, check)
    if (forgotten === 'deleted') return empty(204)
  }
  const outcome = await cancelTask(core, id, of, check)
  if (!outcome) throw httpError(settings.format.notFound)
  if (!outcome.moved && (namesTag || outcome.task.status !== 'cancelled')) {
    if (settings.remove === 'cancel') throw httpError('task_already_final')
    const message = 'The task has ended; to delete it, send its ETag in If-Match.'
    throw httpError('precondition_required', { message })
  }
  if (!outcome.moved && isConditional(request)) isNotModified(request, etagOf(outcome.task))
  const text = settings.format.toText(outcome.task, settings.path.of(request.mountPath, id))
  return jsonText(200, text, statusHeaders(outcome.task))
}

function isConditional<C>({ headers }: HttpRequest<C>): boolean {
  return headers['if-match'] !== undefined || headers['if-none-match'] !== undefined
}
