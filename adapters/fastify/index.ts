import type { IncomingMessage } from 'node:http'
import type {
  FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest, RegisterOptions,
} from 'fastify'
import { type OnError, hasErrorListener } from '../../src/http/boundary.js'
import { httpError } from '../../src/http/errors.js'
import type { ContextArguments } from '../../src/http/request.js'
import type { Handler } from '../../src/http/exchange.js'
import { wrongPeer } from '../../src/runtime/peer.js'
import { func, readOptions, value, type OptionTable } from '../../src/runtime/options.js'
import { Binding } from '../node/binding.js'
import type { NodeRaw } from '../node/index.js'
import { targetOf, type Place } from '../node/request.js'
import { replyOf, send, setReply } from './send.js'

/** Options of `toFastify`. */
interface FastifyOptions<C = unknown> {
  /**
   * Creates `request.context`. Default: `{ user: request.user }`, as the plugins passport and jwt
   * set it.
   */
  readonly context?: (request: FastifyRequest) => C
  /**
   * Receives every error that is masked to clients; see `guard`. Default: `request.log.error`,
   * unless `reportErrorsTo` has a listener.
   */
  readonly onError?: OnError
}

/** Options of `app.register(fastifyLonghaul, …)`, beside those of Fastify, such as `prefix`. */
interface FastifyLonghaulOptions<C = unknown>
  extends FastifyOptions<[C] extends [never] ? unknown : C> {
  /** The handler to mount, such as a `router()`. Its paths are those below the prefix. */
  readonly handler: Handler<C>
}

/**
 * The type of `fastifyLonghaul`. Fastify infers no type parameter of a plugin, so `app.register`
 * accepts a handler of any context, and `fastifyLonghaul<Context>` checks it.
 */
export interface FastifyLonghaul {
  <C>(app: FastifyInstance, options: FastifyLonghaulOptions<C>, done: (error?: Error) => void): void
  (app: FastifyInstance, options: FastifyLonghaulOptions<never>, done: (error?: Error) => void): void
}

const OPTIONS = { context: func(), onError: func() } satisfies OptionTable<FastifyOptions>

const PLUGIN_OPTIONS = {
  ...OPTIONS, handler: func({ required: true }), prefix: value(), logLevel: value(),
  logSerializers: value(),
} satisfies OptionTable<FastifyLonghaulOptions & RegisterOptions>

/** Versions that work. Fastify itself compares them with its own when it registers the plugin. */
const VERSIONS = '>=4.24'

/** Fastify 4 has no list of the methods that it accepts. */
const METHODS_OF_FASTIFY_4 = [
  'DELETE', 'GET', 'HEAD', 'PATCH', 'POST', 'PUT', 'OPTIONS', 'PROPFIND', 'PROPPATCH', 'MKCOL',
  'COPY', 'MOVE', 'LOCK', 'UNLOCK', 'TRACE', 'SEARCH',
]

/**
 * Converts a handler to one for a route of Fastify. Headers that hooks have set are kept. `onSend`
 * hooks see each response, except a rejection while the client still sends more than 64 KiB. If the
 * handler declines, Fastify sends its 404. A body that Fastify has parsed is used as it is. For
 * streams (NDJSON, large uploads) use the plugin, or a scope without content type parsers.
 * @example
 * app.post('/reports', toFastify(submit(report)))
 * app.get('/tasks/:id', toFastify(status))
 * @throws {TypeError} An option is not valid or unknown, or the handler is not a function.
 */
export function toFastify<C = unknown>(
  handler: Handler<C>, ...[options = {}]: ContextArguments<C, FastifyOptions<C>>
): (request: FastifyRequest, reply: FastifyReply) => void {
  const { context, onError = logError } = readOptions('toFastify', options, OPTIONS)
  const makeContext = context ?? defaultContext as (request: FastifyRequest) => C
  const binding = new Binding<C>(handler, {
    onError,
    context: (req) => makeContext(replyOf(req).request),
  }, { send, place: (req) => placeOf(req, replyOf(req).request) })
  let isChecked = false
  return (request, reply) => {
    if (!isChecked) checkVersion(request)
    isChecked = true
    const { raw, body } = request
    setReply(raw, reply)
    const params = paramsOf(request)
    // A body that no parser has read is read from the connection.
    const facts = body === undefined ? { params } : { params, body }
    binding.run(raw, reply.raw, { facts, next: () => { reply.callNotFound() } })
  }
}

/**
 * A Fastify plugin that mounts a handler under a prefix, with all paths below it. Fastify parses no
 * body there, so handlers read bodies themselves. Other routes are not affected.
 * @example
 * app.register(fastifyLonghaul, { prefix: '/api', handler: router({ 'POST /reports': submit(report)
 * }) })
 */
export const fastifyLonghaul = Object.assign(mount as FastifyLonghaul, {
  // Fastify shows this name in its messages. The package fastify-plugin would set it.
  [Symbol.for('plugin-meta')]: { name: 'longhaul', fastify: VERSIONS },
})

function mount(...[app, options, done]: Parameters<FastifyPluginCallback<FastifyLonghaulOptions>>): void {
  const { handler, context, onError } = options
  try {
    readOptions('fastifyLonghaul', options, PLUGIN_OPTIONS)
  } catch (error) {
    // Fastify does not catch what a plugin throws.
    done(error as Error)
    return
  }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, parsed) => { parsed(null) })
  const { supportedMethods = METHODS_OF_FASTIFY_4 }: Partial<FastifyInstance> = app
  const route = toFastify(handler, { ...context && { context }, ...onError && { onError } })
  for (const url of app.prefix === '' ? ['/*'] : ['/', '/*']) {
    // Another plugin may have a route for all paths, such as that of @fastify/cors for OPTIONS.
    const method = supportedMethods.filter((each) => !app.hasRoute({ method: each, url: app.prefix + url }))
    app.route({ method, url, exposeHeadRoute: false, handler: route })
  }
  done()
}

/** A route does not know the application before its first request. */
function checkVersion({ originalUrl, server }: { originalUrl?: string, server?: { version?: string } }): void {
  if (originalUrl !== undefined) return
  throw wrongPeer('longhaul/fastify', 'fastify', '4.24 or later', server?.version)
}

function defaultContext(request: FastifyRequest): unknown {
  return { user: (request as { readonly user?: unknown }).user }
}

/** Logs a fault, unless a listener of `reportErrorsTo` gets it. */
function logError(...[error, { raw }]: Parameters<OnError>): void {
  if (hasErrorListener()) return
  replyOf((raw as NodeRaw).req).log.error({ err: error }, 'longhaul')
}

function paramsOf({ params }: FastifyRequest): Readonly<Record<string, unknown>> {
  const named = params as Readonly<Record<string, unknown>>
  if (!('*' in named)) return named
  const { '*': _, ...rest } = named
  return rest
}

/**
 * Finds the path and the mount path of a request. A target in absolute form is rejected, because
 * hooks of Fastify see all of it, and not its path.
 */
function placeOf(req: IncomingMessage, request: FastifyRequest): Place {
  const { path, search } = targetOf(req)
  if (path !== '*' && !req.url?.startsWith('/')) throw httpError('bad_request', { message: 'The target must be a path.' })
  return { path, search, mountPath: mountPathOf(request, path) }
}

/** Returns as many segments as the prefix of the plugin has. The prefix may contain parameters. */
function mountPathOf(request: FastifyRequest, path: string): string {
  const { prefix } = request.server
  if (prefix === '') return ''
  if (!prefix.includes(':')) return prefix.replace(/\/$/, '')
  const depth = prefix.split('/').filter((segment) => segment !== '').length
  return path.split('/').slice(0, depth + 1).join('/')
}
