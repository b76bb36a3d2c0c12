import type { Middleware, ParameterizedContext } from 'koa'
import type { Handler } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { cleanMountPath, splitTarget } from '../../src/http/target.js'
import { toNode, type NodeOptions } from '../node/index.js'

/** What `toKoa` takes. */
export interface KoaOptions<C = unknown> extends Pick<NodeOptions, 'onError'> {
  /**
   * Makes `request.context`. Default: `{ user: ctx.state.user }`, which is where koa-passport and
   * koa-jwt put it.
   */
  readonly context?: (ctx: ParameterizedContext) => C
  /**
   * The prefix of the @koa/router that the handler is a route of, such as `/api`: it stays in the
   * path. Default: what koa-mount took away.
   */
  readonly mountPath?: string
}

const KNOWN = { onError: 0, context: 0, mountPath: 0 } satisfies Record<keyof KoaOptions, 0>

interface Routed {
  readonly params?: Readonly<Record<string, unknown>>
  readonly request: { readonly body?: unknown }
}

/**
 * Makes a handler into a middleware of Koa: `app.use(toKoa(handler))`, behind koa-mount, or in a
 * route of @koa/router. Headers that middleware in front has set are kept, and a body that koa-body
 * or koa-bodyparser has read is taken. A handler that declines goes on to the next middleware.
 *
 * The answer is written to the connection itself; middleware in front gets its turn again once it
 * is out, and finds the head sent. Failures that are not expected answers go to `onError`, by
 * default to the `error` event of the app.
 */
export function toKoa<C = unknown>(handler: Handler<C>, options: KoaOptions<C> = {}): Middleware {
  checkNames('toKoa', options, KNOWN)
  const { context = ((ctx) => ({ user: ctx.state['user'] as unknown })) as (ctx: ParameterizedContext) => C } = options
  const mountPath = cleanMountPath(options.mountPath ?? '')
  const contexts = new WeakMap<object, ParameterizedContext>()
  const onError = options.onError ?? ((error, { raw }) => {
    const ctx = contexts.get((raw as { req: object }).req)
    ctx?.app.emit('error', error, ctx)
  })
  const handle = toNode<C>(handler, { onError })
  return (ctx, next) => new Promise<void>((resolve, reject) => {
    const { params, request } = ctx as unknown as Routed
    contexts.set(ctx.req, ctx)
    const over = (): void => {
      ctx.respond = false
      resolve()
    }
    ctx.res.once('close', over)
    handle(ctx.req, ctx.res, {
      context: context(ctx),
      mountPath: mountPathOf(ctx) + mountPath,
      ...params && { params },
      ...request.body !== undefined && { body: request.body },
      next: () => {
        ctx.res.off('close', over)
        next().then(() => { resolve() }, reject)
      },
    })
  })
}

/** What koa-mount took away from the front of the path. */
function mountPathOf({ originalUrl, path }: ParameterizedContext): string {
  const { path: sent } = splitTarget(originalUrl)
  if (path === '/' && !sent.endsWith('/')) return sent
  return sent.endsWith(path) ? sent.slice(0, sent.length - path.length) : ''
}
