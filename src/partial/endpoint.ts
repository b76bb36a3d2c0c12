import { isFinalStatus } from '../engine/task.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { negotiate } from '../http/fields/accept.js'
import { empty, jsonText, respondAllow, stream } from '../http/respond.js'
import { parameter, readOperations, response } from '../openapi/operation.js'
import { errorResponses } from '../openapi/responses.js'
import { setTimeout } from '../runtime/timers.js'
import type { Store } from '../stores/store.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import {
  acquireSlot, HEARTBEAT, HEARTBEAT_MS, NOT_STORED, RETRY, STREAM_HEADERS, streamOf,
} from '../tasks/http/event-stream.js'
import { array, object, text } from '../tasks/http/formats.js'
import type { TaskSnapshot } from '../tasks/record/view.js'
import type { Subscription, WaiterSlot } from '../tasks/record/subscriptions.js'
import { serviceOf } from '../tasks/tasks.js'
import { logKey, pagesAfter, readAfter } from './partial-log.js'

type Endpoints<C> = Pick<TaskEndpoints<C>, 'find' | 'status' | 'tasks'>

const BELOW = '/partial-results'
const ALLOW = 'GET, HEAD, OPTIONS'
const JSON_TYPE = 'application/json'
const LINES = 'application/x-ndjson'
const EVENTS = 'text/event-stream'
const TYPES = [JSON_TYPE, LINES, EVENTS] as const
/** Minimum time between two reads of one stream, in milliseconds. */
const READ_MS = 50

/** The form of a stream. */
interface Writer {
  readonly type: string
  readonly begin: string
  readonly result: (id: number, text: string) => string
  readonly gap: (from: number) => string
  readonly end: (last: number, status: string) => string
  readonly heartbeat: string
}

const WRITERS: Readonly<Record<string, Writer>> = {
  [EVENTS]: {
    type: `${EVENTS}; charset=utf-8`, begin: RETRY, heartbeat: HEARTBEAT,
    result: (id, text) => `id: ${id}\ndata: ${text}\n\n`,
    gap: (from) => `id: ${from - 1}\nevent: gap\ndata: ${JSON.stringify({ from })}\n\n`,
    end: (last, status) => `id: ${last}\nevent: end\ndata: ${JSON.stringify({ status })}\n\n`,
  },
  [LINES]: {
    type: LINES, begin: '', heartbeat: '\n',
    result: (id, text) => `{"id":${id},"value":${text}}\n`,
    gap: (from) => `{"gap":{"from":${from}}}\n`,
    end: (_last, status) => `${JSON.stringify({ end: { status } })}\n`,
  },
}

/** Creates the handler of `{status}/partial-results`. */
export function createEndpoint<C>(store: Store, endpoints: Endpoints<C>): Handler<C> {
  const handler = async (request: HttpRequest<C>): Promise<HttpResponse | undefined> => {
    const task = await endpoints.find(request, BELOW)
    if (task === undefined) return undefined
    if (request.method !== 'GET' && request.method !== 'HEAD') return respondAllow(request, ALLOW)
    const type = negotiate(request.headers.accept, TYPES)
    if (type === undefined) throw httpError('not_acceptable', { headers: { vary: NOT_STORED.vary } })
    const after = readPosition(request)
    if (type === JSON_TYPE) return jsonText(200, await bodyOf(store, task, after), NOT_STORED)
    const writer = WRITERS[type] as Writer
    const headers = { ...STREAM_HEADERS, 'content-type': writer.type }
    if (request.method === 'HEAD') return { status: 200, headers }
    // 204 is how a server tells an EventSource to stop reconnecting.
    if (request.headers['last-event-id'] !== undefined && isFinalStatus(task.state)) {
      const { results, last } = await readAfter(store, task, after)
      if (results.length === 0 && last === after) return empty(204, NOT_STORED)
    }
    const slot = acquireSlot(serviceOf(endpoints.tasks).waiters, request, task.owner)
    return stream(200, streamOf(follow(store, endpoints, task, { after, writer, slot }), slot), headers)
  }
  return describe(handler, operationsOf(endpoints))
}

async function* follow<C>(
  store: Store, { tasks }: Endpoints<C>, { id, owner }: TaskSnapshot,
  { after, writer, slot: { signal, release } }: { readonly after: number, readonly writer: Writer, readonly slot: WaiterSlot },
): AsyncGenerator<string | Uint8Array, void, undefined> {
  let [last, isNews, sentAt] = [after, true, performance.now()]
  let subscription: Subscription | undefined
  let unwatch: (() => void) | undefined
  try {
    if (writer.begin !== '') yield writer.begin
    subscription = await serviceOf(tasks).subscriptions.subscribe(id)
    unwatch = await store.watch(logKey(id), () => {
      isNews = true
      subscription?.wake()
    })
    for (let now = await subscription.now(); !signal.aborted; now = await subscription.next(isNews ? 0 : HEARTBEAT_MS, signal)) {
      // The id may have been deleted and used again by another owner.
      if (now?.owner !== owner || !now) return
      isNews = false
      // Read after the state: a run stores all results before it ends.
      const page = await readAfter(store, { id, owner }, last)
      if (page.from !== undefined) yield writer.gap(page.from)
      for (const result of page.results) yield writer.result(result.id, result.text)
      last = page.last
      if (page.isMore) isNews = true
      else if (isFinalStatus(now.state)) {
        yield writer.end(last, now.state)
        return
      }
      if (page.results.length > 0) sentAt = performance.now()
      else if (performance.now() - sentAt >= HEARTBEAT_MS - READ_MS) {
        sentAt = performance.now()
        yield writer.heartbeat
      }
      if (!page.isMore) await new Promise((resolve) => setTimeout(resolve, READ_MS).unref())
    }
  } finally {
    unwatch?.()
    subscription?.close()
    release()
  }
}

async function bodyOf(store: Store, task: TaskSnapshot, after: number): Promise<string> {
  const values: string[] = []
  let last = after
  let from: number | undefined
  for await (const page of pagesAfter(store, task, after)) {
    // A gap behind results that were read: they were evicted meanwhile, or before.
    if (page.from !== undefined) {
      from = page.from
      values.length = 0
    }
    for (const result of page.results) values.push(`{"id":${result.id},"value":${result.text}}`)
    last = page.last
  }
  return `{"status":${JSON.stringify(task.state)},"last":${last}${from === undefined ? '' : `,"from":${from}`},"results":[${values.join(',')}]}`
}

/** Returns the number of the last result that the client has. */
function readPosition({ query, headers }: HttpRequest<unknown>): number {
  const unknown = [...query.keys()].find((name) => name !== 'after')
  const given = query.get('after') ?? headers['last-event-id'] ?? '0'
  if (unknown === undefined && /^\d{1,15}$/.test(String(given))) return Number(given)
  throw httpError('invalid_query', {
    message: unknown === undefined ? 'after and Last-Event-ID must be the number of a partial result.'
      : `There is no parameter ${JSON.stringify(unknown.slice(0, 100))}; after is the only one.`,
  })
}

function operationsOf<C>({ status }: Endpoints<C>) {
  const [{ path } = {}] = status.operations ?? []
  const number = { type: 'integer', minimum: 1 }
  return readOperations({
    summary: 'Read the partial results of a task while it runs',
    parameters: [
      parameter('path', 'id'),
      parameter('query', 'after', { description: 'The number of the last one that the client has', schema: { type: 'integer', minimum: 0 } }),
      parameter('header', 'Last-Event-ID', { description: 'The same, of an event stream that continues' }),
    ],
    responses: {
      200: response('The partial results, in order. Streams go on until the task is final', {
        mediaTypes: TYPES,
        schema: object({
          status: text, last: { type: 'integer' },
          from: { ...number, description: 'The first one that is left, if those before it were dropped' },
          results: array(object({ id: number, value: {} }, 'id', 'value')),
        }, 'status', 'last', 'results'),
      }),
      204: response('An event stream that has nothing more to say'),
      ...errorResponses('invalid_query', 'task_not_found', 'not_acceptable', 'too_many_requests', 'store_unavailable'),
    },
  }).map((each) => ({ ...each, ...path !== undefined && { path: `${path}${BELOW}` } }))
}
