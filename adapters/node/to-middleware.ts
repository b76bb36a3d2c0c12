import type { IncomingMessage } from 'node:http'
import {
  compose, type Handler, type HttpRequest, type HttpResponse, type Policy, type ResponseHeaders,
  checkCall,
} from '../../src/http/exchange.js'
import type { ContextArguments } from '../../src/http/request.js'
import { readOptions } from '../../src/runtime/options.js'
import { principalOf } from '../../src/http/principal.js'
import { atHead, checkHeader, together } from './head.js'
import { NODE_OPTIONS, type NodeOptions, toNode, type NodeHandler } from './binding.js'
import { HANDED_ON, type HostRequest, type NodeRaw } from './host.js'

interface Passed<C> {
  readonly request: HttpRequest<C>
  readonly headers: Readonly<ResponseHeaders>
}
type Verdict<C> = HttpResponse | Passed<C>

const STAND_IN = Symbol('longhaul.standIn')
const FRAMING = new Set(['content-length', 'transfer-encoding'])

/**
 * Puts policies in front of your framework's own handlers, as middleware of Express 4, Express 5
 * and Connect. For other frameworks, pass Node's objects: `guard(request.raw, reply.raw, done)` in
 * an `onRequest` hook of Fastify.
 *
 * If a policy rejects a request, the client gets longhaul's error body. Otherwise your framework
 * continues, and the headers of policies are added to its response. `Vary`, `Link`, `Set-Cookie`,
 * `RateLimit` and `RateLimit-Policy` of both are joined. For other headers the value of your
 * framework stays.
 *
 * `requestOf(req)` then returns the request with the context that policies have made, for
 * `principalOf` and `consume`. `toNode` handlers get this context. `req.user` is the principal,
 * unless your framework has set it.
 *
 * Policies see the response of your framework as an empty 200. So `timeouts` and `limitBody` are
 * not accepted, and an optional `authenticate` adds no challenge to a 401 of your framework.
 * @example
 * app.use('/v1', toMiddleware([requestId(), deprecated({ deprecated: '2026-01-01' })]))
 * @throws {TypeError} There is no policy, the order would not work (see `compose`), or a policy
 * cannot work here.
 */
export function toMiddleware<C = unknown>(
  policy: Policy<C> | readonly Policy<C>[], ...given: ContextArguments<C, NodeOptions<C>>
): NodeHandler<C> {
  readOptions('toMiddleware', given[0] ?? {}, NODE_OPTIONS)
  const policies = typeof policy === 'function' ? [policy] : [...policy]
  if (policies.length === 0) throw new TypeError('toMiddleware: pass at least one policy')
  compose<C>(...policies, () => undefined)
  for (const { place } of policies) {
    if (place?.wholeRun === 'cuts') {
      throw new TypeError(
        `toMiddleware: ${place.name} works on handlers of longhaul only; `
        + 'for other handlers use the limits of your server or framework'
      )
    }
  }
  const handler: Handler<C> = (request) => through(policies, request)
  return toNode(handler, ...given)
}

/**
 * Returns the request with the context that policies of `toMiddleware` have made.
 * @example
 * const principal = principalOf(requestOf(req) ?? request)
 */
export function requestOf<C = unknown>(req: IncomingMessage): HttpRequest<C> | undefined {
  return (req as HostRequest)[HANDED_ON] as HttpRequest<C> | undefined
}

async function through<C>(
  policies: readonly Policy<C>[], first: HttpRequest<C>,
): Promise<HttpResponse | undefined> {
  let request = first
  for (const policy of policies) {
    const verdict = await (policy.place?.wholeRun === 'waits' ? askWaiting : ask)(policy, request)
    if ('status' in verdict) return verdict
    announce(verdict)
    request = verdict.request
  }
  handOn(request)
  return undefined
}

async function ask<C>(policy: Policy<C>, request: HttpRequest<C>): Promise<Verdict<C>> {
  let inner = request
  const next: Handler<C> = (handed) => {
    checkCall(handed)
    inner = handed
    return { status: 200, headers: {}, [STAND_IN]: true }
  }
  const response = await policy(request, next)
  return response === undefined || STAND_IN in response
    ? { request: inner, headers: response?.headers ?? {} }
    : response
}

/** Lets your framework continue while the policy waits for its response. */
function askWaiting<C>(
  policy: Policy<C>, request: HttpRequest<C>,
): Promise<Verdict<C>> {
  const { res } = request.raw as NodeRaw
  return new Promise((resolve, reject) => {
    const next: Handler<C> = (handed) => new Promise((headOut) => {
      checkCall(handed)
      const out = (): void => { headOut({ status: 200, headers: {} }) }
      atHead(res, out)
      res.once('close', out)
      resolve({ request: handed, headers: {} })
    })
    // A response after that is too late to be sent.
    const settle = async (): Promise<void> => {
      resolve(await policy(request, next) ?? { request, headers: {} })
    }
    settle().catch(reject)
  })
}

/**
 * Adds headers to the response of your framework. Throws at once if they could not be sent later.
 */
function announce<C>({ request, headers }: Passed<C>): void {
  const names = Object.keys(headers).filter((name) => !FRAMING.has(name))
  if (names.length === 0) return
  const { res } = request.raw as NodeRaw
  for (const name of names) checkHeader(name, headers[name] as string | string[])
  atHead(res, () => {
    for (const name of names) {
      const both = together(name, res.getHeader(name), headers[name] as string | string[])
      if (both !== undefined) res.setHeader(name, both)
    }
  })
}

function handOn<C>(request: HttpRequest<C>): void {
  const req: HostRequest = (request.raw as NodeRaw).req
  // First, so that the context is made before `HANDED_ON` is set.
  const principal = principalOf(request)
  req[HANDED_ON] = request
  if (principal !== undefined && req.user === undefined) req.user = principal
}
