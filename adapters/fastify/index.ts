import type {
  FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest, RegisterOptions,
} from 'fastify'
import type { Handler } from '../../src/http/exchange.js'
import type { OnError } from '../../src/http/boundary.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { splitTarget } from '../../src/http/target.js'
import { toNode } from '../node/index.js'

/** What `toFastify` and the plugin take. */
export interface FastifyOptions<C = unknown> {
  /**
   * Makes `request.context`. Default: `{ user: request.user }`, which is where @fastify/passport
   * and @fastify/jwt put it.
   */
  readonly context?: (request: FastifyRequest) => C
  /** Hears of every failure that is not an expected answer. Default: `request.log.error`. */
  readonly onError?: OnError
}

/** Options of `app.register(longhaul, …)`, beside Fastify's own `prefix`. */
export interface LonghaulOptions<C = unknown> extends FastifyOptions<[C] extends [never] ? unknown : C> {
  /** The handler to mount: for example a `router()`, whose paths are those below the prefix. */
  readonly handler: Handler<C>
}

/**
 * The type of `longhaul`. Fastify infers no type parameter of a plugin, so `app.register(longhaul,
 * …)` takes a handler of any context. With `app.register(longhaul<Context>, …)` the options
 * `handler` and `context` are checked against it.
 */
export interface LonghaulPlugin {
  <C>(app: FastifyInstance, options: LonghaulOptions<C>, done: (error?: Error) => void): void
  (app: FastifyInstance, options: LonghaulOptions<never>, done: (error?: Error) => void): void
}

const KNOWN = { context: 0, onError: 0 } satisfies Record<keyof FastifyOptions, 0>
/** What Fastify itself takes beside the options of a plugin. */
const PLUGIN = {
  ...KNOWN, handler: 0, prefix: 0, logLevel: 0, logSerializers: 0,
} satisfies Record<keyof LonghaulOptions | keyof RegisterOptions, 0>
const requests = new WeakMap<object, FastifyRequest>()

/**
 * Makes a handler into one for a route of Fastify: `app.post('/reports',
 * toFastify(submit(report)))`. Hooks in front of it run as ever, and headers that they have set are
 * kept. The answer is written to the connection itself, so `onSend` hooks don't see it, and
 * `onResponse` hooks do. A handler that declines leaves Fastify's own 404.
 *
 * A body that Fastify has parsed is taken as it is. For streams (NDJSON, large uploads) use the
 * plugin, or a scope without content type parsers.
 */
export function toFastify<C = unknown>(handler: Handler<C>, options: FastifyOptions<C> = {}): (request: FastifyRequest, reply: FastifyReply) => void {
  checkNames('toFastify', options, KNOWN)
  const { context = defaultContext as (request: FastifyRequest) => C } = options
  const onError = options.onError ?? ((error, { raw }) => {
    const request = requests.get((raw as { req: object }).req)
    request?.log.error({ err: error }, 'longhaul')
  })
  const handle = toNode<C>(handler, { onError })
  return (request, reply) => {
    requests.set(request.raw, request)
    for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) reply.raw.setHeader(name, value)
    const { '*': _, ...params } = request.params as Record<string, unknown>
    handle(request.raw, reply.raw, {
      params,
      context: context(request),
      mountPath: mountPathOf(request),
      // What nothing has parsed is read from the connection.
      ...request.body !== undefined && { body: request.body },
      next: () => { reply.callNotFound() },
    })
  }
}

/**
 * A plugin that mounts a handler under a prefix, with everything below it: `app.register(longhaul,
 * { prefix: '/api', handler })`. No content type is parsed there, so handlers read bodies
 * themselves, as streams where they are large. Other routes stay as they are.
 */
export const longhaul = Object.assign(((app: FastifyInstance, options, done) => {
  const { handler, context, onError } = options
  try {
    checkNames('longhaul', options, PLUGIN)
    if (typeof handler !== 'function') throw new TypeError('longhaul: pass a handler, as in app.register(longhaul, { prefix: \'/api\', handler })')
  } catch (error) {
    // Thrown, it would escape from Fastify.
    done(error as Error)
    return
  }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, parsed) => { parsed(null) })
  const route = toFastify(handler, { ...context && { context }, ...onError && { onError } })
  for (const url of ['/', '/*']) app.route({ method: app.supportedMethods, url, exposeHeadRoute: false, handler: route })
  done()
}) satisfies FastifyPluginCallback<LonghaulOptions> as LonghaulPlugin, {
  // What fastify-plugin would write: a name for messages.
  [Symbol.for('plugin-meta')]: { name: 'longhaul', fastify: '>=4' },
})

function defaultContext(request: FastifyRequest): unknown {
  return { user: (request as { readonly user?: unknown }).user }
}

/**
 * The front of the path as the client wrote it: as many segments as the prefix of the plugin has,
 * which may be parameters.
 */
function mountPathOf(request: FastifyRequest): string {
  const { prefix } = request.server
  if (prefix === '' || !prefix.includes(':')) return prefix.replace(/\/$/, '')
  const depth = prefix.split('/').filter((segment) => segment !== '').length
  return splitTarget(request.originalUrl).path.split('/').slice(0, depth + 1).join('/')
}
