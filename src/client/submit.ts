import { ClientError } from './errors.js'
import { isObject } from './json-object.js'
import { askKeyed, type Question } from './keyed.js'
import { resolvePath, serverUrl, type MaybePromise, type Settings } from './options.js'
import { idOf, textOf } from './status.js'
import { directTask, remoteTask, type SavedTask, type TaskHandle } from './task.js'
import { ask, newKey, type Answer, type Call } from './transport.js'

/** Options of `submit`. */
export interface SubmitOptions {
  /** Stops waiting. The task continues. */
  readonly signal?: AbortSignal
  /**
   * Idempotency-Key. Requests with the same key are the same work, so a lost request can be sent
   * again. `bulk` and `upload` do so only if the server acknowledges keys. If `false`, no key is
   * sent, and the client repeats only requests that were refused.
   * @default a random key
   */
  readonly idempotencyKey?: string | false
  /**
   * Seconds for which the server may hold its answer, in case the work ends within them (RFC 7240
   * section 4.3).
   */
  readonly wait?: number
  /**
   * Sends `Prefer: respond-async`. If `false`, the server answers with the result itself.
   * @default true
   */
  readonly background?: boolean
  /** Additional header fields. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Path of the status resource, with `{id}` for the identifier. Required if the answer does not
   * name the resource, or if the page may not read the answer's `Location`.
   */
  readonly statusPath?: string
}

/** Names of the options that `submit`, `upload` and `bulk` have in common. */
export const WORK = {
  signal: 0, idempotencyKey: 0, background: 0, headers: 0, statusPath: 0,
} satisfies Record<keyof Omit<SubmitOptions, 'wait'>, 0>
/** Names of the options of `submit`. */
export const SUBMIT = { ...WORK, wait: 0 } satisfies Record<keyof SubmitOptions, 0>

/** A request that starts work. */
export interface Work extends SubmitOptions {
  readonly method?: string
  readonly body: () => MaybePromise<Blob | ReadableStream<Uint8Array> | string>
  readonly type?: string
  /** The body can be sent only once. */
  readonly once?: boolean
  /** True if this package has chosen `idempotencyKey`. */
  readonly isOwnKey?: boolean
  /** See `KeyedCall`. */
  readonly question?: Question | 'none'
}

/** Sends work. Returns a handle for the task of a 202, or for the body of another answer. */
export async function start<R>(
  settings: Settings, path: string, work: Work,
): Promise<TaskHandle<R>> {
  const { method = 'POST', body, type = 'application/json', signal, once, background = true } = work
  const { idempotencyKey, isOwnKey = idempotencyKey === undefined, wait, question } = work
  const prefer = [background && 'respond-async', wait !== undefined && `wait=${wait}`]
    .filter((part) => part !== false).join(', ')
  const call: Call = {
    method, url: resolvePath(settings, path), body, signal,
    headers: {
      'accept': 'application/json', 'content-type': type, 'prefer': prefer || undefined,
      ...work.headers,
    },
  }
  const limits = once ? { ...settings, attempts: 1 } : settings
  const answer = idempotencyKey === false
    ? await ask(limits, 'refused', call)
    : await askKeyed(limits, {
      ...call, key: idempotencyKey ?? newKey(), isOptional: isOwnKey && !once, question,
    })
  return toHandle(settings, answer, work.statusPath)
}

/** Returns a handle for the task of a 202, or for the body of another answer. */
export function toHandle<R>(
  settings: Settings, { headers, url, json, status }: Answer, statusPath: string | undefined,
): TaskHandle<R> {
  if (status !== 202) return directTask(json as R)
  const body = isObject(json) ? json : {}
  const id = idOf(body)
  if (statusPath !== undefined && id !== undefined) {
    const path = statusPath.replace('{id}', encodeURIComponent(id))
    return remoteTask(settings, resolvePath(settings, path), id)
  }
  // A page on another origin may be unable to read the header fields.
  const reference = headers.get('location') ?? textOf(body['statusUrl'])
    ?? headers.get('content-location')
  if (reference === null) {
    const message = 'The server accepted the work but does not name its status; set statusPath.'
    throw new ClientError('no_status_url', message, { status, body: json })
  }
  return remoteTask(settings, serverUrl(reference, url), id)
}

/** Creates a handle from what `toJSON` of another handle returned, as a value or as JSON text. */
export function resume<R>(settings: Settings, saved: SavedTask | string): TaskHandle<R> {
  const { taskId, statusUrl, result } = (
    typeof saved === 'string' ? JSON.parse(saved) : saved
  ) as SavedTask
  if (statusUrl === undefined) return directTask(result as R)
  return remoteTask(settings, serverUrl(statusUrl, settings.base), taskId)
}
