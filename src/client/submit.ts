import type { MaybePromise } from '../wire/maybe-promise.js'
import type { Preference } from '../wire/prefer.js'
import { ClientError, isObject } from './errors.js'
import { resolvePath, serverUrl, statusUrl, type CallOptions, type Settings } from './options.js'
import { ask, askKeyed, newKey } from './retry.js'
import type { Answer, Body, ClientRequest } from './send.js'
import { idOf, stringOf } from './status.js'
import { directTask, remoteTask, type SavedTask, type TaskHandle } from './task.js'

/** Options of `submit`. */
export interface SubmitOptions extends CallOptions {
  /**
   * Idempotency-Key; `false` sends none. Default: a random key.
   *
   * Requests with the same key are the same work, so a lost request is repeated. Without a key,
   * only requests that were rejected before any work was done are repeated.
   *
   * `bulk` and `upload` repeat only if the server acknowledges keys.
   */
  readonly idempotencyKey?: string | false
  /** Seconds for which the server may wait for the result (RFC 7240 section 4.3). */
  readonly wait?: number
  /**
   * Sends `Prefer: respond-async`. If `false`, the server responds with the result. Default: true.
   */
  readonly background?: boolean
}

export const WORK = ['signal', 'idempotencyKey', 'background', 'headers', 'statusPath'] as const

export interface Work extends SubmitOptions {
  readonly method?: string
  readonly body: () => MaybePromise<Body>
  readonly type?: string
  readonly once?: boolean
  /** True if this package has chosen `idempotencyKey`. */
  readonly isOwnKey?: boolean
  readonly question?: string | false
  /** Sends the preference `handling` (RFC 7240 section 4.4). */
  readonly handling?: 'strict' | 'lenient'
}

export async function start<R>(
  settings: Settings, path: string, work: Work,
): Promise<TaskHandle<R>> {
  const { method = 'POST', body, type = 'application/json', signal, once, background = true } = work
  const { idempotencyKey, isOwnKey = idempotencyKey === undefined, wait, question, handling } = work
  const preferences: (Preference | false)[] = [
    background && 'respond-async', wait !== undefined && `wait=${wait}`,
    handling !== undefined && `handling=${handling}`,
  ]
  const prefer = preferences.filter((part) => part !== false).join(', ')
  const call: ClientRequest & { readonly method: string } = {
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

export function toHandle<R>(
  settings: Settings, { headers, url, json, status }: Answer, statusPath: string | undefined,
): TaskHandle<R> {
  if (status !== 202) return directTask(json as R)
  const body = isObject(json) ? json : {}
  const id = idOf(body)
  if (statusPath !== undefined && id !== undefined) {
    return remoteTask(settings, statusUrl(settings, statusPath, id), id)
  }
  // A page on another origin may be unable to read the headers.
  const reference = headers.get('location') ?? stringOf(body['statusUrl'])
    ?? headers.get('content-location')
  if (reference === null) {
    const message = 'The server accepted the work but does not name its status; set statusPath.'
    throw new ClientError('no_status_url', message, { status, body: json })
  }
  return remoteTask(settings, serverUrl(reference, url), id)
}

export function resume<R>(settings: Settings, saved: SavedTask | string): TaskHandle<R> {
  const { taskId, statusUrl: url, result } = (
    typeof saved === 'string' ? JSON.parse(saved) : saved
  ) as SavedTask
  if (url === undefined) return directTask(result as R)
  return remoteTask(settings, serverUrl(url, settings.base), taskId)
}
