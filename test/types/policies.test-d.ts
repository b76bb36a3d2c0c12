// Types of policies, compiled by `npm run types`: policies in variables compose with handlers and with each other.
import { expectTypeOf } from 'expect-type'
import { compose, router, type Handler, type HttpRequest, type HttpResponse, type Policy } from 'longhaul'
import { toMiddleware, toNode } from 'longhaul/node'
import {
  apiKey, authenticate, authorize, basic, bearer, hostUser, idempotent, limitBody, limitConcurrency,
  limitHeaders, rateLimit, requestId, timeouts, tokens,
} from 'longhaul/policies'
import { cors } from 'longhaul/resources'
import type { Store } from 'longhaul/stores'

interface Context { readonly user: { readonly id: string, readonly admin: boolean } }
declare const handler: Handler<Context>
declare const store: Store

const log = requestId()
const crossOrigin = cors({ origins: ['https://app.example'] })
const signedIn = authenticate({ schemes: [bearer({ verify: tokens({ s3cret: { subject: 'ann' } }) })] })
const writersOnly = authorize({ allow: ({ subject }) => subject === 'ann', reason: 'needs_writer' })
const perCaller = rateLimit({
  store,
  onStoreError: 'deny',
  policies: [{ name: 'default', limit: 1, windowSeconds: 1 }],
})
const bounded = [
  limitHeaders({ maxHeaderBytes: 1000 }),
  timeouts({ runMs: 1000 }),
  limitConcurrency({ maxConcurrent: 10 }),
]
const adminsOnly: Policy<Context> = (request, next) => (request.context.user.admin ? next(request) : undefined)
const tenantsOnly: Policy<{ readonly tenant: string }> = (request, next) =>
  request.context.tenant ? next(request) : undefined

/** Policies of the package, in variables, in front of a handler that reads a context. */
export function inVariables(): void {
  expectTypeOf(compose(log, crossOrigin, signedIn, perCaller, writersOnly, handler)).toEqualTypeOf<Handler<Context>>()
  expectTypeOf(compose(log, adminsOnly, handler)).toEqualTypeOf<Handler<Context>>()
  expectTypeOf(compose(adminsOnly, log, handler)).toEqualTypeOf<Handler<Context>>()
  expectTypeOf(compose(...bounded, handler)).toEqualTypeOf<Handler<Context>>()
  expectTypeOf(
    compose(log, limitBody({ maxBodyBytes: 10 }), idempotent({ store, caller: 'principal' }), () => undefined),
  ).toEqualTypeOf<Handler>()
  const all: Policy<Context>[] = [log, signedIn, adminsOnly]
  toNode(compose(...all, handler))
  toMiddleware(all)
}

/** A policy of the application fits in front of a handler that reads less or more. */
export function inFrontOf(): void {
  const plain: Handler = () => undefined
  expectTypeOf(compose(adminsOnly, plain)).toEqualTypeOf<Handler<Context>>()
  const both: Handler<Context & { readonly tenant: string }> = () => undefined
  expectTypeOf(compose(tenantsOnly, adminsOnly, both)).toEqualTypeOf<typeof both>()
  router<Context>({ 'GET /a': compose(adminsOnly, handler), 'GET /b': plain })
}

/** A function with types of its own is a policy. */
export function byHand(): void {
  const timed = async (request: HttpRequest<Context>, next: Handler<Context>): Promise<HttpResponse | undefined> =>
    next(request)
  expectTypeOf(timed).toExtend<Policy<Context>>()
  expectTypeOf(compose(timed, handler)).toEqualTypeOf<Handler<Context>>()
  const generic = async <C>(request: HttpRequest<C>, next: Handler<C>): Promise<HttpResponse | undefined> =>
    next(request)
  expectTypeOf(compose(generic, handler)).toEqualTypeOf<Handler<Context>>()
}

/** `with` keeps the type of the context, or takes that of the new one. */
export function changed(request: HttpRequest<Context>): void {
  expectTypeOf(request.with({ headers: { ...request.headers, 'x-tenant': 'acme' } })).toEqualTypeOf<
    HttpRequest<Context>
  >()
  expectTypeOf(request.with({})).toEqualTypeOf<HttpRequest<Context>>()
  expectTypeOf(request.with({ context: { tenant: 'acme' } })).toEqualTypeOf<HttpRequest<{ tenant: string }>>()
  const adds: Policy<Context> = (inner, next) => next(inner.with({ context: { ...inner.context, tenant: 'acme' } }))
  const generic = <C>(inner: HttpRequest<C>, next: Handler<C>) =>
    next(inner.with({ path: '/other', method: 'GET', search: '' }))
  expectTypeOf(compose(adds, generic, handler)).toEqualTypeOf<Handler<Context>>()
  // @ts-expect-error There is no such member.
  request.with({ header: {} })
  // @ts-expect-error The handler behind reads another context.
  const loses: Policy<Context> = (inner, next) => next(inner.with({ context: { tenant: 'acme' } }))
  void loses
}

/** What does not fit is a compile error. */
export function refused(): void {
  // @ts-expect-error The policy reads a context that these handlers' policies do not promise.
  const wrong: Policy = adminsOnly
  void wrong
  // @ts-expect-error The handler reads a user of another type.
  compose(adminsOnly, (({ context }) => {
    context.user.id.toFixed()
    return undefined
  }) as Handler<{ readonly user: { readonly id: number } }>)
  // @ts-expect-error A policy does not take the place of the handler.
  compose(handler, adminsOnly)
  // @ts-expect-error The binding gives another context.
  toNode(compose(log, adminsOnly, handler), { context: () => ({ user: 'ann' }) })
}

/** `hostUser` as a new user writes it: `req.user` of the host is in the context of every binding. */
export function userOfTheHost(): void {
  authenticate({ schemes: [hostUser(({ context }) => context.user && { subject: context.user.id })] })
  authenticate({
    schemes: [
      hostUser(({ context: { user } }) => (user ? { subject: String(user.id), roles: user.roles } : undefined)),
    ],
  })
  const typed = hostUser(({ context }: HttpRequest<Context>) => ({
    subject: context.user.id,
    isAdmin: context.user.admin,
  }))
  const signedInHere = authenticate({
    schemes: [typed, basic({ verify: () => undefined }), apiKey({ header: 'x-api-key', verify: () => undefined })],
  })
  compose(signedInHere, handler)
  // @ts-expect-error A principal has a subject.
  hostUser(({ context }: HttpRequest<Context>) => ({ id: context.user.id }))
  // @ts-expect-error The context has no such member.
  hostUser(({ context }) => ({ subject: String(context.session) }))
}
