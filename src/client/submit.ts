import { ClientError } from './errors.js'
import { isObject } from './json-object.js'
import { resolvePath, type MaybePromise, type Settings } from './options.js'
import { idOf, textOf } from './status.js'
import { directTask, remoteTask, type SavedTask, type TaskHandle } from './task.js'
import { ask, newKey, type Answer, type Call } from './transport.js'

/** How work is submitted. */
export interface SubmitOptions {
  /** Ends the waiting, not the task. */
  readonly signal?: AbortSignal
  /**
   * The same key means the same work, so a lost request can be sent again. Default: a random one.
   * With `false` none is sent, and only what the server has refused is sent again.
   */
  readonly idempotencyKey?: string | false
  /**
   * Asks the server to hold its answer for up to so many seconds, in case the work is done by then
   * (RFC 7240 section 4.3).
   */
  readonly wait?: number
  /** `false`: asks for the result in the answer itself. Default true: `Prefer: respond-async`. */
  readonly background?: boolean
  /** Further header fields. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Where the status is, with `{id}` for the identifier, for servers whose answer does not say, or
   * not to other origins.
   */
  readonly statusPath?: string
}

/** The names of the options of everything that is submitted. */
export const WORK = {
  signal: 0, idempotencyKey: 0, background: 0, headers: 0, statusPath: 0,
} satisfies Record<keyof Omit<SubmitOptions, 'wait'>, 0>
/** The names of these. */
export const SUBMIT = { ...WORK, wait: 0 } satisfies Record<keyof SubmitOptions, 0>

/** A request that starts work. */
export interface Work extends SubmitOptions {
  readonly method?: string
  readonly body: () => MaybePromise<Blob | ReadableStream<Uint8Array> | string>
  readonly type?: string
  /** Whether the body can be sent once only. */
  readonly once?: boolean
}

/**
 * Sends work, and makes a handle of the answer: of a 202 the task that it names, of others their
 * body.
 */
export async function start<R>(settings: Settings, path: string, work: Work): Promise<TaskHandle<R>> {
  const { method = 'POST', body, type = 'application/json', signal, idempotencyKey: key = newKey(), wait, background = true } = work
  const prefer = [background && 'respond-async', wait !== undefined && `wait=${wait}`].filter((part) => part !== false).join(', ')
  const call: Call = {
    method, url: resolvePath(settings, path), body, signal,
    headers: {
      'accept': 'application/json', 'content-type': type, 'prefer': prefer || undefined,
      'idempotency-key': key === false ? undefined : key, ...work.headers,
    },
  }
  const answer = await ask(work.once ? { ...settings, attempts: 1 } : settings, key === false ? 'refused' : 'keyed', call)
  return answer.status === 202 ? accepted(settings, answer, work.statusPath) : directTask(answer.json as R)
}

function accepted<R>(settings: Settings, { headers, url, json, status }: Answer, statusPath: string | undefined): TaskHandle<R> {
  const body = isObject(json) ? json : {}
  const id = idOf(body)
  if (statusPath !== undefined && id !== undefined) {
    return remoteTask(settings, resolvePath(settings, statusPath.replace('{id}', encodeURIComponent(id))), id)
  }
  // A page on another origin may not see the headers.
  const place = headers.get('location') ?? textOf(body['statusUrl']) ?? headers.get('content-location')
  if (place === null) {
    throw new ClientError('no_status_url', 'The server accepted the work but does not say where its status is; give statusPath.', { status, body: json })
  }
  return remoteTask(settings, statusUrl(place, url), id)
}

/** Takes up a task again from what `toJSON` of its handle gave, as a value or as JSON text. */
export function resume<R>(settings: Settings, saved: SavedTask | string): TaskHandle<R> {
  const { id, statusUrl: place, result } = (typeof saved === 'string' ? JSON.parse(saved) : saved) as SavedTask
  return place === undefined ? directTask(result as R) : remoteTask(settings, statusUrl(place, settings.base.href), id)
}

function statusUrl(place: string, base: string): URL {
  try {
    const url = new URL(place, base)
    if (/^https?:$/.test(url.protocol)) return url
  } catch {
    // Said below.
  }
  throw new ClientError('bad_answer', 'The place of the status is not an http or https URL.')
}
