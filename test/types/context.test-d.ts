// Types of the option `context`, compiled by `npm run types`, and by scripts/check-package.mjs on older compilers.
import type { Server } from 'node:http'
import { defineTask, type Handler, type Policy, type TaskContext } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { toKoa } from 'longhaul/koa'
import { testContext } from 'longhaul/testing'
import { attach, toMiddleware, toNode, type NodeHandler } from 'longhaul/node'

interface Context { readonly tenant: string }
declare const handler: Handler<Context>
declare const policy: Policy<Context>
declare const plain: Handler
declare const server: Server
const context = (): Context => ({ tenant: 'acme' })

/** The option `context` is required if the handler reads more than the user or the principal. */
export function missingContext(readsUser: Handler<{ readonly user: { readonly id: string } }>): void {
  toNode(readsUser)
  toNode(readsUser, { mountPath: '/api' })
  toKoa(readsUser)
  toFastify(readsUser)
  toNode({} as Handler<{ readonly tenant?: string }>)
  toNode(({ path }) => ({ status: 200, headers: {}, body: path }))
  // @ts-expect-error the context is missing
  toNode(handler)
  // @ts-expect-error the context is missing
  toNode(handler, { mountPath: '/api' })
  // @ts-expect-error the context is missing
  toMiddleware(policy)
  // @ts-expect-error the context is missing
  toMiddleware([policy])
  // @ts-expect-error the context is missing
  attach(server, handler)
  // @ts-expect-error the context is missing
  toFastify(handler)
  // @ts-expect-error the context is missing
  toKoa(handler)
}

/** A wrapper for handlers of any context passes the options on. */
export function wrapper<C>(any: Handler<C>, makeContext: () => C): NodeHandler<C> {
  return toNode(any, { context: makeContext })
}

/** Fetch has no default context: a missing one is passed in each call. */
export function missingFetchContext(readsUser: Handler<{ readonly user: string }>): void {
  const request = new Request('http://test')
  void toFetch(plain)(request)
  void toFetch(handler, { context })(request)
  void toFetch(handler)(request, { context: { tenant: 'acme' } })
  // @ts-expect-error the context is missing
  void toFetch(handler)(request)
  // @ts-expect-error the context is missing
  void toFetch(handler, { mountPath: '/api' })(request, { mountPath: '/api' })
  // @ts-expect-error the context is missing
  void toFetch(readsUser)(request)
}

/** `testContext` requires the context that `run` declares. */
export function contextOfTests(): void {
  const greet = defineTask({ name: 'greet', run: (_input, { context }: TaskContext<Context>) => context.tenant })
  testContext(greet, { context: { tenant: 'acme' } })
  testContext(defineTask({ name: 'plain', run: () => 1 }))
  // @ts-expect-error the context is missing
  testContext(greet)
  // @ts-expect-error the context is missing
  testContext(greet, { attempt: 1 })
}
