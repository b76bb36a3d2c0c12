import { guard, type OnError } from '../../src/http/boundary.js'
import { copyHeadersToError, notFound } from '../../src/http/response-headers.js'
import type { Handler, HttpResponse } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { cleanMountPath } from '../../src/http/target.js'
import { FetchRequest, type FetchFacts } from './request.js'
import { toResponse } from './response.js'

/** What `toFetch` takes. */
export interface FetchOptions<C = unknown> {
  /** Hears of every failure that is not an expected answer; see `guard`. */
  readonly onError?: OnError
  /** Makes `request.context`, once, when it is first asked for. Default: `{}`. */
  readonly context?: (request: Request) => C
  /**
   * The front of the path under which the handler is mounted, as clients see it. A path that a
   * router or a proxy shortened gets it back. Default `''`. Starts with `/`.
   */
  readonly mountPath?: string
}

const KNOWN = { onError: 0, context: 0, mountPath: 0 } satisfies Record<keyof FetchOptions, 0>

/** What may be said of one call: the facts of the request, and where to go on. */
export interface FetchCall<C = unknown> extends FetchFacts<C> {
  /** Where a request goes that the handler does not take. Default: 404 `not_found`. */
  readonly next?: () => Response | undefined | Promise<Response | undefined>
}

/** What `toFetch` makes. It never rejects, unless `next` does. */
export type FetchHandler<C = unknown> = (request: Request, extra?: FetchCall<C>) => Promise<Response>

/**
 * Makes a handler into a fetch-style one, for Hono, h3, Deno, Bun and Workers (see "Workers, Deno
 * and Bun" in the guide on embedding):
 *
 * ```ts
 * const handle = toFetch(handler)
 * app.all('/api/*', (c) => handle(c.req.raw, { mountPath: '/api', context: { user: c.get('user') } }))
 * ```
 *
 * When the handler answers `undefined`, what `next` gives is the answer; without it, or when it
 * gives nothing, 404 `not_found`. A body that was read before is taken from `extra.body`, else
 * asking for it fails with an error that says so. A streamed answer is pulled chunk by chunk; its
 * `Response` is there with the first chunk, after 1 s, or at once for `text/event-stream`, and a
 * source that fails before that is answered with an error.
 *
 * Throws a TypeError when the handler is no function or the mount path does not start with `/`.
 */
export function toFetch<C = unknown>(handler: Handler<C>, options: FetchOptions<C> = {}): FetchHandler<C> {
  if (typeof handler !== 'function') {
    throw new TypeError(`A handler has to be a function, not ${handler === null ? 'null' : typeof handler}`)
  }
  checkNames('toFetch', options, KNOWN)
  const { onError, context } = options
  const ownMountPath = options.mountPath === undefined ? undefined : cleanMountPath(options.mountPath)
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
