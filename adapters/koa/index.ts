import type { Middleware, ParameterizedContext } from 'koa'
import { type OnError, hasErrorListener } from '../../src/http/boundary.js'
import {
  type ContextArguments, cleanMountPath, pathUnder, splitTarget,
} from '../../src/http/request.js'
import type { Handler } from '../../src/http/exchange.js'
import { func, readOptions, text, type OptionTable } from '../../src/runtime/options.js'
import { Binding } from '../node/binding.js'
import type { NodeRaw } from '../node/index.js'
import { pathBelow, removedFrom, targetOf, type Place } from '../node/request.js'

/** Options of `toKoa`. */
interface KoaOptions<C = unknown> {
  /** Receives every error that is masked to clients; see `guard`. */
  readonly onError?: OnError
  /**
   * Creates `request.context`. Default: `{ user: ctx.state.user }`, as koa-passport and koa-jwt set
   * it.
   */
  readonly context?: (ctx: ParameterizedContext) => C
  /**
   * Prefix of the router of Koa, such as `/api`. Default: the prefix that koa-mount has removed.
   */
  readonly mountPath?: string
}

const OPTIONS = {
  onError: func(), context: func(), mountPath: text({ pattern: /^/, expects: 'a string' }),
} satisfies OptionTable<KoaOptions>

const CONTEXT = Symbol('longhaul.koaContext')

type RawRequest = object & { [CONTEXT]?: ParameterizedContext }

interface Extended {
  readonly params?: Readonly<Record<string, unknown>>
  readonly request: { readonly body?: unknown }
}

/**
 * Converts a handler to a middleware of Koa, or for a route of @koa/router. Headers of earlier
 * middleware and a parsed body are used. If the handler declines, the next middleware runs. Masked
 * errors go to `onError`, else to `error` events of the app, unless `reportErrorsTo` has a
 * listener.
 * @example
 * app.use(toKoa(router({ 'POST /api/reports': submit(report) })))
 * @throws {TypeError} The handler, `mountPath` or another option is not valid or unknown.
 */
export function toKoa<C = unknown>(
  handler: Handler<C>, ...[options = {}]: ContextArguments<C, KoaOptions<C>>
): Middleware {
  const { context, onError = emitError, mountPath: prefix = '' } = readOptions('toKoa', options, OPTIONS)
  const makeContext = context ?? defaultContext as (ctx: ParameterizedContext) => C
  const mountPath = cleanMountPath(prefix)
  const binding = new Binding<C>(
    handler, { onError, context: (req) => makeContext(contextOf(req)) },
    { place: (req) => placeOf(contextOf(req), mountPath) },
  )
  return (ctx, next) => new Promise<void>((resolve, reject) => {
    const { params, request } = ctx as unknown as Extended
    const raw: RawRequest = ctx.req
    raw[CONTEXT] = ctx
    const end = (): void => {
      ctx.respond = false
      resolve()
    }
    ctx.res.once('close', end)
    const facts = { ...params && { params }, ...request.body !== undefined && { body: request.body } }
    const passOn = (): void => {
      ctx.res.off('close', end)
      next().then(() => { resolve() }, reject)
    }
    binding.run(ctx.req, ctx.res, { facts, next: passOn })
  })
}

function contextOf(raw: object): ParameterizedContext {
  return (raw as RawRequest)[CONTEXT] as ParameterizedContext
}

function defaultContext(ctx: ParameterizedContext): unknown {
  return { user: ctx.state['user'] as unknown }
}

function emitError(...[error, { raw }]: Parameters<OnError>): void {
  if (hasErrorListener()) return
  const ctx = contextOf((raw as NodeRaw).req)
  ctx.app.emit('error', error, ctx)
}

/**
 * Finds the path of a request below the prefix that koa-mount has removed.
 * @param prefix - prefix of the router of Koa, which does not remove it from the path
 */
function placeOf({ req, originalUrl }: ParameterizedContext, prefix: string): Place {
  const { path: local, search } = targetOf(req)
  const { path: sent } = splitTarget(originalUrl)
  const removed = removedFrom(sent, local)
  const path = pathBelow(removed, pathUnder(prefix, local, ''), sent)
  return { path, search, mountPath: removed + prefix }
}
