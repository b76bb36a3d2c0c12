import { guard, type OnError } from '../../src/http/boundary.js'
import { type ContextArguments, type WithContext, cleanMountPath } from '../../src/http/request.js'
import { copyHeadersToError, notFound } from '../../src/http/respond.js'
import type { Handler, HttpResponse } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { FetchRequest, type FetchFacts } from './request.js'
import { toResponse } from './response.js'

/** Options of `toFetch`. */
export interface FetchOptions<C = unknown> {
  /** Receives every error that is masked to clients; see `guard`. */
  readonly onError?: OnError
  /** Creates `request.context` when it is first read. Default: `{}`. */
  readonly context?: (request: Request) => C
  /**
   * The front of the path under which the handler is mounted, as clients see it. A path that a
   * router or a proxy has shortened gets it back. Starts with `/`. Default: `''`.
   */
  readonly mountPath?: string
}

const KNOWN = { onError: 0, context: 0, mountPath: 0 } satisfies Record<keyof FetchOptions, 0>

/** Facts of one request, and the next handler. */
export interface FetchCall<C = unknown> extends FetchFacts<C> {
  /** Answers requests that the handler declines. Default: 404 `not_found`. */
  readonly next?: () => Response | undefined | Promise<Response | undefined>
}

/** A fetch-style handler. It never rejects, unless `next` does. */
export type FetchHandler<C = unknown> = (
  request: Request, extra?: FetchCall<C>,
) => Promise<Response>

/** A fetch-style handler that needs `context` in each call, if `C` has required members. */
export type ContextFetchHandler<C = unknown> = (
  request: Request, ...extra: ContextArguments<C, FetchCall<C>, 'principal'>
) => Promise<Response>

/**
 * Turns a handler into a fetch-style one, for Hono, h3, Deno, Bun and Workers (see "Workers, Deno
 * and Bun" in the guide on embedding).
 *
 * If the handler declines, the answer is that of `next`, or 404 `not_found`. A body that was read
 * before is taken from `extra.body`; without it, reading the body fails. A streamed answer is
 * pulled chunk by chunk. Its `Response` is returned with the first chunk, after 1 s, or at once for
 * `text/event-stream`. If the source fails before that, the client gets an error answer.
 *
 * @example
 * const handle = toFetch(handler, { mountPath: '/api' })
 * const response = await handle(new Request('http://localhost/api/tasks'), { context: { user } })
 *
 * @throws {TypeError} The handler is not a function, `mountPath` does not start with `/`, or an
 * option is unknown.
 */
export function toFetch<C = unknown>(
  handler: Handler<C>, options: FetchOptions<C> & WithContext<FetchOptions<C>>,
): FetchHandler<C>
/**
 * Turns a handler into a fetch-style one. If the handler reads a context, pass it in each call.
 *
 * @example
 * const handle = toFetch(handler)
 * const response = await handle(new Request('http://localhost/tasks'), { context: { user } })
 */
export function toFetch<C = unknown>(
  handler: Handler<C>, options?: FetchOptions<C>,
): ContextFetchHandler<C>
export function toFetch<C = unknown>(
  handler: Handler<C>, options: FetchOptions<C> = {},
): FetchHandler<C> {
  if (typeof handler !== 'function') {
    throw new TypeError(
      'toFetch: pass a handler, such as submit(report) or status of taskEndpoints, not '
      + (handler === null ? 'null' : typeof handler)
    )
  }
  checkNames('toFetch', options, KNOWN)
  const { onError, context } = options
  const ownMountPath = options.mountPath === undefined
    ? undefined
    : cleanMountPath(options.mountPath)
  const makeContext = context ?? (() => ({}) as C)
  const handle = guard(handler, { onError })

  return async (request, extra = {}) => {
    let mountPath = ownMountPath
    let misuse: unknown
    try {
      if (extra.mountPath !== undefined) mountPath = cleanMountPath(extra.mountPath)
    } catch (error) {
      misuse = error
    }
    const call = new FetchRequest(request, extra, makeContext, mountPath)
    const rescue = async (error: unknown): Promise<HttpResponse> =>
      await guard<C>(() => { throw error }, { onError })(call) as HttpResponse

    const answer = misuse === undefined ? await handle(call) : await rescue(misuse)
    if (answer === undefined) {
      return await extra.next?.() ?? toResponse(call, await rescue(notFound(call)), rescue)
    }
    try {
      return await toResponse(call, answer, rescue)
    } catch (error) {
      copyHeadersToError(error, answer)
      return toResponse(call, await rescue(error), rescue)
    }
  }
}
