import type { HttpRequest } from '../../http/exchange.js'
import { LIMIT, TIMER, SIZE } from '../definition/bounds.js'
import type { TaskFormat } from './formats.js'
import type { OwnerOption } from '../../http/requester.js'
import type { FindCallback, FindStart } from './submit-endpoint-options.js'

/** Options of `taskEndpoints`. */
export interface TaskEndpointsOptions<C = unknown> {
  /**
   * Path of the status resource below the mount path, with `{id}` for the task's id: `/tasks/{id}`.
   */
  readonly statusPath: string
  /** The body of answers: `taskFormat` (default), `jobFormat`, or one of your own. */
  readonly format?: TaskFormat
  /**
   * The owner of the tasks. A task exists for its owner only. All others get the answer of an
   * unknown task. Required, because each choice is wrong for some servers:
   *
   * - A function returns the owner's id: `owner: ({ context }) => context.user?.id`. `undefined` is
   *   an anonymous client, who creates tasks without an owner and can see only such tasks. Anything
   *   other than a non-empty string or `undefined` is a `TypeError`, which is answered with 500 and
   *   goes to `onError`.
   * - `'principal'`: the subject that `authenticate` or the host (`context.principal`) has found. A
   *   request without one is answered with 401 `unauthorized`, before its body is read.
   * - `'anyone'`: tasks have no owner. Whoever knows the id (128 random bits) may see and cancel
   *   the task. An Idempotency-Key belongs to the subject of the principal, or else to the
   *   credentials as they were sent: `Authorization`, `Cookie`, `Proxy-Authorization`, `X-Api-Key`.
   *
   * `maxPerOwner` counts clients without an owner by the network address of their connection.
   * Behind a proxy they all count as one.
   */
  readonly owner: OwnerOption<C>
  /**
   * Returns the part of the request that `run` receives as `context`, as JSON. Default: nothing.
   */
  readonly context?: (request: HttpRequest<C>) => unknown
  /**
   * Finds the callback URL in the body: `(body) => body.callbackUrl`. Requires `callbacks` of
   * `createTasks`. A URL that can't be called is a 400. A URL in a request for a direct answer is a
   * 400 too. Default: no callbacks.
   */
  readonly callback?: FindCallback<C>
  /**
   * Finds the start in the body: `(body) => body.startAt`. A client sends a time of RFC 3339
   * (`2026-12-24T18:00:00Z`), or a duration without years and months (`PT90M`, `P1D`). Such a
   * request is answered with 202, whatever it prefers, because there is no result yet. Errors: 400
   * `invalid_start_at`; 422 `start_at_out_of_range` for a time in the past or more than a year
   * ahead. The clock of the engine decides. Default: all work starts now.
   */
  readonly startAt?: FindStart<C>
  /**
   * Effect of a DELETE of the status resource. `cancel`: cancels an unfinished task. A final one
   * gets a 409 `task_already_final`. `forget`: also deletes a final task, and all that it owns, if
   * `If-Match` has the `ETag` of its status. The response is a 204. Without that tag it is a 428
   * `precondition_required`, and with an old one a 412. With both, a repeated DELETE of a task that
   * the first one has cancelled gets the same 200 again. Default `cancel`.
   */
  readonly remove?: 'cancel' | 'forget'
  /** Maximum time of `Prefer: wait=N`, in seconds. A longer wait ends then. Default 30. */
  readonly maxWaitSeconds?: number
  /**
   * Maximum time of a direct answer, in milliseconds. Then the answer is 503 `sync_timeout`, and
   * the work is stopped. With an Idempotency-Key the work continues, and a retry gets its result.
   * Default 30 000.
   */
  readonly syncTimeoutMs?: number
  /** Maximum size of a body, in bytes. Default: `maxInputBytes` of the tasks. */
  readonly maxBodyBytes?: number
  /**
   * Maximum number of bytes of one owner's bodies that bulk and NDJSON handlers with `background`
   * have stored for their tasks. A body counts while it arrives, and until its task is completed or
   * deleted, or its blob has expired. Resumable uploads with the same store count too. More are a
   * 429 `too_many_bytes`; a larger body is a 413. Clients without an owner are counted by network.
   *
   * Default: a quarter of `maxBytes` of the blobs, 64 MiB in `memory()`. For blobs without
   * `maxBytes`: 16 GiB, or `maxBodyBytes` of the handler if that is more.
   */
  readonly maxBytesPerOwner?: number
  /** Options of the handler `list`. */
  readonly list?: {
    /**
     * Further query parameters that a request may have, such as one that a policy in front reads.
     * Default: none, so that they are refused.
     */
    readonly also?: readonly string[]
  }
}

/** Names and bounds of the options of `taskEndpoints`. */
export const ENDPOINTS_OPTIONS = {
  statusPath: 0, format: 0, owner: 0, context: 0, callback: 0, startAt: 0, remove: 0, list: 0,
  maxWaitSeconds: [0, 3600], syncTimeoutMs: TIMER, maxBodyBytes: SIZE, maxBytesPerOwner: LIMIT,
} satisfies Record<keyof TaskEndpointsOptions, unknown>
