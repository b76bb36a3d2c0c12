import { boundary, failureResponse, type OnError } from '../../src/http/boundary.js'
import { type ContextArguments, type WithContext, cleanMountPath } from '../../src/http/request.js'
import { copyHeadersToError, notFound } from '../../src/http/respond.js'
import type { Handler, HttpResponse } from '../../src/http/exchange.js'
import { func, readOptions, text, type OptionTable } from '../../src/runtime/options.js'
import { FetchRequest, type FetchFacts } from './request.js'
import { toResponse } from './response.js'

/** Options of `toFetch`. */
export interface FetchOptions<C = unknown> {
  /** Receives every error that is masked to clients; see `guard`. */
  readonly onError?: OnError
  /** Creates `request.context` when it is first read. Default: `{}`. */
  readonly context?: (request: Request) => C
  /**
   * Start of the path under which the handler is mounted, as clients see it, such as `/api`.
   * Default: `''`.
   *
   * It is added to a path from which a router or a proxy has removed it.
   */
  readonly mountPath?: string
}

const OPTIONS = {
  onError: func(), context: func(), mountPath: text({ pattern: /^/, expects: 'a string' }),
} satisfies OptionTable<FetchOptions>

/** Facts of one request, and the next handler. */
export interface FetchCall<C = unknown> extends FetchFacts<C> {
  /** Responds to requests that the handler declines. Default: 404 `not_found`. */
  readonly next?: () => Response | undefined | Promise<Response | undefined>
}

/** A fetch-style handler. It never rejects, unless `next` does. */
export type FetchHandler<C = unknown> = (
  request: Request, extra?: FetchCall<C>,
) => Promise<Response>

/** A fetch-style handler that needs `context` in each call, if `C` has required properties. */
export type ContextFetchHandler<C = unknown> = (
  request: Request, ...extra: ContextArguments<C, FetchCall<C>, 'principal'>
) => Promise<Response>

/**
 * Turns a handler into a fetch-style one, for Hono, h3, Deno, Bun and Workers.
 *
 * If the handler declines, the response is that of `next`, or 404 `not_found`. A body that was read
 * before is taken from `extra.body`. A streamed response is returned with its first chunk, after 1
 * s, or at once for `text/event-stream`. If the source fails before that, the client gets an error
 * response.
 * @example
 * const handle = toFetch(handler, { mountPath: '/api' })
 * const response = await handle(new Request('http://localhost/api/tasks'), { context: { user } })
 * @throws {TypeError} The handler is not a function, `mountPath` does not start with `/`, or an
 * option is not valid or unknown.
 */
export function toFetch<C = unknown>(
  handler: Handler<C>, options: FetchOptions<C> & WithContext<FetchOptions<C>>,
): FetchHandler<C>
/**
 * Turns a handler into a fetch-style one. If the handler reads a context, pass it in each call.
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
  const { onError, context, mountPath: prefix } = readOptions('toFetch', options, OPTIONS)
  const ownMountPath = prefix === undefined ? undefined : cleanMountPath(prefix)
  const makeContext = context ?? (() => ({}) as C)
  const handle = boundary(handler, onError)

  return async (request, extra = {}) => {
    let mountPath = ownMountPath
    let misuse: unknown
    try {
      if (extra.mountPath !== undefined) mountPath = cleanMountPath(extra.mountPath)
    } catch (error) {
      misuse = error
    }
    const call = new FetchRequest(request, extra, makeContext, mountPath)
    const rescue = (error: unknown): HttpResponse => failureResponse(error, call, onError)

    const response = misuse === undefined ? await handle(call) : rescue(misuse)
    if (response === undefined) {
      return await extra.next?.() ?? toResponse(call, rescue(notFound(call)), rescue)
    }
    try {
      return await toResponse(call, response, rescue)
    } catch (error) {
      copyHeadersToError(error, response)
      return toResponse(call, rescue(error), rescue)
    }
  }
}
