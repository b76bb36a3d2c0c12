import type {
  FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest, RegisterOptions,
} from 'fastify'
import { type OnError, hasErrorListener } from '../../src/http/boundary.js'
import { type ContextArguments, splitTarget } from '../../src/http/request.js'
import type { Handler } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { toNode, type NodeRaw } from '../node/index.js'

/** Options of `toFastify`. */
export interface FastifyOptions<C = unknown> {
  /**
   * Returns `request.context`. Default: `{ user: request.user }`; the plugins passport and jwt of
   * Fastify set this user.
   */
  readonly context?: (request: FastifyRequest) => C
  /**
   * Receives every failure that is not an expected answer. Default: `request.log.error`, unless
   * `reportErrorsTo` has a listener.
   */
  readonly onError?: OnError
}

/** Options of `app.register(longhaul, …)`, beside Fastify's own such as `prefix`. */
export interface LonghaulOptions<C = unknown>
  extends FastifyOptions<[C] extends [never] ? unknown : C> {
  /** The handler to mount, such as a `router()`. Its paths are those below the prefix. */
  readonly handler: Handler<C>
}

/**
 * The type of `longhaul`. Fastify infers no type parameter of a plugin, so `app.register(longhaul,
 * …)` accepts a handler of any context. `app.register(longhaul<Context>, …)` checks the options
 * `handler` and `context` against `Context`.
 */
export interface LonghaulPlugin {
  <C>(app: FastifyInstance, options: LonghaulOptions<C>, done: (error?: Error) => void): void
  (app: FastifyInstance, options: LonghaulOptions<never>, done: (error?: Error) => void): void
}

const KNOWN = { context: 0, onError: 0 } satisfies Record<keyof FastifyOptions, 0>

/** Names of the options that a plugin receives, Fastify's own included. */
const PLUGIN = {
  ...KNOWN, handler: 0, prefix: 0, logLevel: 0, logSerializers: 0,
} satisfies Record<keyof LonghaulOptions | keyof RegisterOptions, 0>

/**
 * Key under which a request of node:http holds Fastify's request. A WeakMap would cost 5 µs a
 * request.
 */
const REQUEST = Symbol('longhaul.fastifyRequest')

type RawRequest = object & { [REQUEST]?: FastifyRequest }

/**
 * Converts a handler to one for a route of Fastify. Hooks that run before it work as usual, and
 * header fields that they have set are kept. The answer is written to the connection directly, so
 * `onResponse` hooks run, and `onSend` hooks do not. If the handler declines, Fastify answers 404.
 *
 * A body that Fastify has parsed is used as it is. For streams (NDJSON, large uploads) use the
 * plugin, or a scope without content type parsers.
 *
 * @example
 * app.post('/reports', toFastify(submit(report)))
 * app.get('/tasks/:id', toFastify(status))
 *
 * @throws {TypeError} An option is unknown, or `handler` is no function.
 */
export function toFastify<C = unknown>(
  handler: Handler<C>, ...[options = {}]: ContextArguments<C, FastifyOptions<C>>
): (request: FastifyRequest, reply: FastifyReply) => void {
  checkNames('toFastify', options, KNOWN)
  const makeContext = options.context ?? defaultContext as (request: FastifyRequest) => C
  const handle = toNode<C>(handler, {
    onError: options.onError ?? logError,
    context: (req) => makeContext(requestOf(req)),
  })
  return (request, reply) => {
    const raw: RawRequest = request.raw
    raw[REQUEST] = request
    copyHeaders(reply)
    handle(request.raw, reply.raw, {
      params: paramsOf(request),
      mountPath: mountPathOf(request),
      next: () => { reply.callNotFound() },
      // A body that no parser has read is read from the connection.
      ...request.body !== undefined && { body: request.body },
    })
  }
}

/**
 * A Fastify plugin that mounts a handler under a prefix, with all paths below it. Fastify parses no
 * body there, so handlers read bodies themselves, large ones as streams. Other routes are not
 * affected.
 *
 * @example
 * app.register(longhaul, { prefix: '/api', handler: router({ 'POST /reports': submit(report) }) })
 */
export const longhaul = Object.assign(mount as LonghaulPlugin, {
  // The name that Fastify's messages show, as fastify-plugin would set it.
  [Symbol.for('plugin-meta')]: { name: 'longhaul', fastify: '>=4' },
})

function mount(...[app, options, done]: Parameters<FastifyPluginCallback<LonghaulOptions>>): void {
  const { handler, context, onError } = options
  try {
    checkNames('longhaul', options, PLUGIN)
    if (typeof handler !== 'function') {
      throw new TypeError(
        "longhaul: pass a handler: app.register(longhaul, { prefix: '/api', handler })"
      )
    }
  } catch (error) {
    // Fastify does not catch what a plugin throws.
    done(error as Error)
    return
  }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, parsed) => { parsed(null) })
  const route = toFastify(handler, { ...context && { context }, ...onError && { onError } })
  for (const url of ['/', '/*']) {
    app.route({ method: app.supportedMethods, url, exposeHeadRoute: false, handler: route })
  }
  done()
}

function requestOf(raw: object): FastifyRequest {
  return (raw as RawRequest)[REQUEST] as FastifyRequest
}

function defaultContext(request: FastifyRequest): unknown {
  return { user: (request as { readonly user?: unknown }).user }
}

/** Logs an error, unless `reportErrorsTo` has a listener: one fault is one entry in the log. */
function logError(...[error, { raw }]: Parameters<OnError>): void {
  if (hasErrorListener()) return
  requestOf((raw as NodeRaw).req).log.error({ err: error }, 'longhaul')
}

/** Copies the header fields that hooks have set to the response of node:http. */
function copyHeaders(reply: FastifyReply): void {
  const headers = reply.getHeaders()
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
}

/** Returns the path parameters without the wildcard. */
function paramsOf({ params }: FastifyRequest): Readonly<Record<string, unknown>> {
  const named = params as Readonly<Record<string, unknown>>
  if (!('*' in named)) return named
  const { '*': _, ...rest } = named
  return rest
}

/**
 * Returns the front of the path as the client wrote it. It has as many segments as the prefix of
 * the plugin, which may be parameters.
 */
function mountPathOf(request: FastifyRequest): string {
  const { prefix } = request.server
  if (prefix === '') return ''
  if (!prefix.includes(':')) return prefix.replace(/\/$/, '')
  const depth = prefix.split('/').filter((segment) => segment !== '').length
  return splitTarget(request.originalUrl).path.split('/').slice(0, depth + 1).join('/')
}
