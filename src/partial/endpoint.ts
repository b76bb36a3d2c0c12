import { isFinalStatus, type StoredTask } from '../engine/task.js'
import { httpError, notAcceptable } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { negotiate } from '../http/headers/accept.js'
import { NDJSON_TYPE, NDJSON_TYPES } from '../http/headers/ndjson-types.js'
import { empty, jsonText, respondAllow, stream } from '../http/respond.js'
import type { Properties } from '../openapi/fragment.js'
import { parameter, readOperations, response } from '../openapi/operation.js'
import { errorResponses } from '../openapi/responses.js'
import { setTimeout } from '../runtime/timers.js'
import type { Store } from '../stores/store.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import {
  acquireSlot, HEARTBEAT, HEARTBEAT_MS, NOT_STORED, RETRY, STREAM_HEADERS, streamOf,
} from '../tasks/http/event-stream.js'
import { array, object, text } from '../tasks/http/formats.js'
import type { Subscription, WaiterSlot } from '../tasks/record/subscriptions.js'
import { coreOf } from '../tasks/tasks.js'
import type { PartialLine, PartialResult } from '../wire/partial.js'
import { hasLog, logKey, type TaskOfLog } from './partial-log.js'
import { parsePosition, readAfter, toId, type Page, type Position } from './partial-reader.js'
import { detailsOf } from '../tasks/record/details.js'

type Endpoints<C> = Pick<TaskEndpoints<C>, 'find' | 'status' | 'tasks'> & {
  /** Owner that open streams count for. Default: the owner of the task. */
  readonly waitsAs?: string
}

const BELOW = '/partial-results'
const ALLOW = 'GET, HEAD, OPTIONS'
const JSON_TYPE = 'application/json'
const EVENTS = 'text/event-stream'
const TYPES = [JSON_TYPE, NDJSON_TYPE, EVENTS, ...NDJSON_TYPES.slice(1)]
/** Codes of tasks that failed before their run. */
const NOT_BEGUN: ReadonlySet<string> = new Set(['invalid_input', 'unknown_task'])
/** Minimum time between two reads of one stream, in milliseconds. */
const READ_MS = 50

/** The form of a stream. */
interface Writer {
  readonly begin: string
  readonly result: (id: string, text: string) => string
  readonly gap: (before: string) => string
  readonly end: (id: string, status: string) => string
  readonly heartbeat: string
}

const EVENT_WRITER: Writer = {
  begin: RETRY, heartbeat: HEARTBEAT,
  result: (id, text) => `id: ${id}\ndata: ${text}\n\n`,
  gap: (before) => `id: ${before}\nevent: gap\ndata: {}\n\n`,
  end: (id, status) => `id: ${id}\nevent: end\ndata: ${JSON.stringify({ status })}\n\n`,
}
const LINE_WRITER: Writer = {
  begin: '', heartbeat: '\n',
  result: (id, text) => `{"id":"${id}","value":${text}}\n`,
  gap: (before) => `{"id":"${before}","gap":{}}\n`,
  end: (id, status) => `${JSON.stringify({ id, end: { status } } satisfies PartialLine)}\n`,
}

/** Creates the handler of `{status}/partial-results`. */
export function createEndpoint<C>(store: Store, endpoints: Endpoints<C>): Handler<C> {
  const handler = async (request: HttpRequest<C>): Promise<HttpResponse | undefined> => {
    const task = await endpoints.find(request, BELOW)
    if (task === undefined) return undefined
    if (request.method !== 'GET' && request.method !== 'HEAD') return respondAllow(request, ALLOW)
    const type = negotiate(request.headers.accept, TYPES)
    if (type === undefined) throw notAcceptable(TYPES, NOT_STORED.vary)
    const after = readPosition(request)
    if (type === JSON_TYPE) return jsonText(200, await allAfter(store, task, after), NOT_STORED)
    const writer = type === EVENTS ? EVENT_WRITER : LINE_WRITER
    const contentType = type === EVENTS ? `${EVENTS}; charset=utf-8` : type
    const headers = { ...STREAM_HEADERS, 'content-type': contentType }
    // 204 is how a server tells an EventSource that was told the end to stop reconnecting.
    if (after?.version === task.version && request.headers['last-event-id'] !== undefined && isFinalStatus(task.status)) {
      const { results, gap } = await readAfter(store, logOf(task), after, hasRun(task))
      if (results.length === 0 && gap === undefined) return empty(204, NOT_STORED)
    }
    if (request.method === 'HEAD') return { status: 200, headers }
    const slot = acquireSlot(coreOf(endpoints.tasks).waiters, request, endpoints.waitsAs ?? task.owner)
    return stream(200, streamOf(follow(store, endpoints, task, { after, writer, slot }), slot), headers)
  }
  return describe(handler, operationsOf(endpoints))
}

async function* follow<C>(
  store: Store, { tasks }: Endpoints<C>, task: StoredTask,
  { after, writer, slot: { signal, release } }: { readonly after: Position | undefined, readonly writer: Writer, readonly slot: WaiterSlot },
): AsyncGenerator<string | Uint8Array, void, undefined> {
  const log = logOf(task)
  let [position, isNews, sentAt] = [after, true, performance.now()]
  // Changes of the task that are not sent must not put the heartbeat off.
  const quietMs = (): number => Math.max(0, sentAt + HEARTBEAT_MS - performance.now())
  let subscription: Subscription | undefined
  let unwatch: (() => void) | undefined
  try {
    if (writer.begin !== '') yield writer.begin
    subscription = await coreOf(tasks).subscriptions.subscribe(task.id)
    unwatch = log.external === undefined ? undefined : await store.watch(logKey(log), () => {
      isNews = true
      subscription?.wake()
    })
    for (let now = await subscription.now(); !signal.aborted; now = await subscription.next(isNews ? 0 : quietMs(), signal)) {
      // The task may have been deleted, and its id used again.
      if (!now || detailsOf(now).external !== log.external) return
      isNews = false
      // Read after the status: a run stores all results before it ends.
      const page = await readAfter(store, log, position, hasRun(now))
      const text = toText(writer, page)
      if (text !== '') yield text
      position = page.position
      if (page.isMore) isNews = true
      else if (isFinalStatus(now.status)) {
        yield writer.end(toId({ ...position, version: now.version }), now.status)
        return
      }
      if (text !== '') sentAt = performance.now()
      else if (quietMs() <= READ_MS) {
        sentAt = performance.now()
        yield writer.heartbeat
      }
      if (!page.isMore) await new Promise((resolve) => setTimeout(resolve, READ_MS))
    }
  } finally {
    unwatch?.()
    subscription?.close()
    release()
  }
}

/** Returns a page as one text: its results are few, or small. */
function toText(writer: Writer, { results, gap }: Page): string {
  const begin = gap ? writer.gap(toId(gap)) : ''
  return results.reduce((text, result) => text + writer.result(toId(result), result.text), begin)
}

async function allAfter(store: Store, task: StoredTask, after: Position | undefined): Promise<string> {
  const values: string[] = []
  let position = after
  let hasGap = false
  for (let isMore = true; isMore;) {
    const page = await readAfter(store, logOf(task), position, hasRun(task))
    // Those before a gap were dropped while this one read.
    if (page.gap) {
      hasGap = true
      values.length = 0
    }
    for (const result of page.results) values.push(`{"id":"${toId(result)}","value":${result.text}}`)
    ;({ position, isMore } = page)
  }
  const last = position === undefined ? '' : `,"last":"${toId(position)}"`
  return `{"status":${JSON.stringify(task.status)}${last}${hasGap ? ',"gap":true' : ''},"results":[${values.join(',')}]}`
}

function logOf(task: StoredTask): TaskOfLog {
  return { id: task.id, external: detailsOf(task).external }
}

/** Returns true for a final task whose run has begun. */
function hasRun(task: StoredTask): boolean {
  const { status, attempt } = task
  if (!isFinalStatus(status) || attempt === 0 || !hasLog(logOf(task))) return false
  return status !== 'failed' || attempt > 1 || !NOT_BEGUN.has(detailsOf(task).error?.code ?? '')
}

/** Returns the last result that the client has, if it says so. */
function readPosition({ query, headers }: HttpRequest<unknown>): Position | undefined {
  const names = [...query.keys()]
  const unknown = names.find((name, at) => name !== 'after' || at > 0)
  // An EventSource sends both: the parameter of its URL stays, and the header is newer.
  const given = headers['last-event-id'] ?? query.get('after')
  if (unknown === undefined && given === null) return undefined
  const position = parsePosition(String(given))
  if (unknown === undefined && position) return position
  throw httpError('invalid_query', {
    message: unknown === undefined ? '"after" and Last-Event-ID must be the id of a partial result.'
      : `The parameter ${JSON.stringify(unknown.slice(0, 100))} is not known here, or repeated; "after" is the only one.`,
  })
}

function operationsOf<C>({ status }: Endpoints<C>) {
  const [{ path } = {}] = status.operations ?? []
  return readOperations({
    summary: 'Read the partial results of a task while it runs',
    parameters: [
      parameter('path', 'id'),
      parameter('query', 'after', { description: 'The id of the last one that the client has' }),
      parameter('header', 'Last-Event-ID', { description: 'The same, of an event stream that continues. It takes precedence over `after`' }),
    ],
    responses: {
      200: response('The partial results, in order. Streams go on until the task is final', {
        mediaTypes: TYPES,
        schema: object({
          status: text, last: text,
          gap: { const: true, description: 'Some before these results were dropped' },
          results: array(object({ id: text, value: {} } satisfies Properties<PartialResult>, 'id', 'value')),
        }, 'status', 'last', 'results'),
      }),
      204: response('An event stream that has nothing more to say'),
      ...errorResponses('invalid_query', 'task_not_found', 'not_acceptable', 'too_many_requests', 'store_unavailable'),
    },
  }).map((each) => ({ ...each, ...path !== undefined && { path: `${path}${BELOW}` } }))
}
