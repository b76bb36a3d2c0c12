import type { Handler, HttpRequest } from '../http/exchange.js'
import { refuseIdempotencyKey } from '../http/respond.js'
import { checkNames } from '../runtime/option-names.js'
import { assertSchema } from '../schema/schema.js'
import { collectionOperations } from './collection-operations.js'
import type { CollectionOptions } from './collection-options.js'
import { Items } from './items.js'
import { LIST_OPTIONS, listHandler } from './list.js'
import { resource, type Methods } from './resource.js'
import { router } from './router.js'

const KNOWN = {
  ...LIST_OPTIONS, schema: 0, changeSchema: 0, id: 0, path: 0, param: 0, requirePreconditions: 0,
  etag: 0, maxBodyBytes: 0,
} satisfies Record<keyof CollectionOptions<object>, 0>

/** A handler for a collection, and the handlers of its two resources. */
export interface Collection<C = unknown> extends Handler<C> {
  /** GET (a page, see `list`), HEAD, POST, OPTIONS. */
  readonly list: Handler<C>
  /** GET, HEAD, PUT, PATCH, DELETE, OPTIONS of one record, named by the path parameter. */
  readonly item: Handler<C>
}

/**
 * Serves the records of a repository over HTTP (SPEC 4.1), at `path` and `path/{id}`. The resources
 * of both are also available as `list` and `item`. A method that the repository cannot do is a 405.
 *
 * - GET and HEAD: a page (see `list`), or the record with its ETag; 304, 404.
 * - POST creates: 201 with Location, ETag and the record.
 * - PUT replaces: 200, or creates: 201 with Location. The body needs no id. If it has another id
 * than the path, the answer is 400.
 * - PATCH changes the fields that the body names: 200. It takes `application/json` and
 * `application/merge-patch+json`, both as a merge patch (RFC 7396). Another media type is 415 with
 * Accept-Patch.
 * - DELETE: 204, or 404.
 * - `Prefer: return=minimal` (RFC 7240 section 4.2): POST and PUT that create answer 201 without a
 * body, PUT and PATCH 204.
 * - If-Match and If-None-Match (RFC 9110 section 13.1): 412 if they do not hold. If the repository
 * offers `transaction`, the check and the write are in one transaction. Its `get` must lock the
 * record there, or transactions must be serialisable. Otherwise a concurrent request may write in
 * between.
 *
 * A request that changes something and has an Idempotency-Key is 400 `idempotency_not_supported`,
 * unless the policy `idempotent()` is in front.
 *
 * A body that does not fit the schema is 400 `invalid_input`. A duplicate is what the repository
 * throws: 409 `conflict`.
 *
 * @example
 * const users = collection({ repository, schema, path: '/users' })
 * router({ '/users': users, '/users/{id}': users })
 *
 * @throws {TypeError} The repository has none of the methods, or no `get` where one is needed, or
 * an option is not valid.
 */
export function collection<
  Item extends object, Draft = Partial<Item>, Change = Partial<Draft>, Id = string, C = unknown,
>(options: CollectionOptions<Item, Draft, Change, Id>): Collection<C> {
  checkNames('collection', options, KNOWN)
  const { repository, schema, changeSchema, path = '/', param = 'id' } = options
  const { maxBodyBytes = 1_048_576 } = options
  assertSchema(schema, 'collection: schema')
  if (changeSchema !== undefined) assertSchema(changeSchema, 'collection: changeSchema')
  if (!(maxBodyBytes >= 1)) throw new TypeError('collection: maxBodyBytes must be 1 or more')
  if (!repository) throw new TypeError(`collection: pass a repository, with a ${METHODS}`)
  for (const method of ['replace', 'update', 'delete'] as const) {
    if (!repository[method] || repository.get) continue
    const reason = 'to hold conditions against it'
    throw new TypeError(`collection: a repository with ${method} needs get, ${reason}`)
  }
  const items = new Items<Item, Draft, Change, Id>(options)
  const about = collectionOperations(options)
  const has = (needed: keyof typeof repository, methods: Methods<C>): Methods<C> => {
    return typeof repository[needed] === 'function' ? methods : {}
  }
  const many = {
    ...repository.list && { GET: listHandler<Item, C>({ ...options, repository }) },
    ...has('create', { POST: about('POST', keyless(items.create)) }),
  }
  const one = {
    ...has('get', { GET: about('GET', items.read) }),
    ...has('replace', { PUT: about('PUT', keyless(items.replace)) }),
    ...has('update', { PATCH: about('PATCH', keyless(items.update)) }),
    ...has('delete', { DELETE: about('DELETE', keyless(items.remove)) }),
  }
  if (Object.keys({ ...many, ...one }).length === 0) {
    throw new TypeError(`collection: the repository has no ${METHODS}`)
  }
  const parts = { list: orNothing(many), item: orNothing(one) }
  const routes: Record<string, Handler<C>> = {}
  if (Object.keys(many).length > 0) routes[path] = parts.list
  if (Object.keys(one).length > 0) routes[`${path === '/' ? '' : path}/{${param}}`] = parts.item
  return Object.assign(router<C>(routes), parts)
}

const METHODS = 'method of list, create, get, replace, update, delete'

/** Returns a handler that rejects requests with an Idempotency-Key. */
function keyless<R>(
  handler: (request: HttpRequest) => R,
): (request: HttpRequest) => R {
  return (request) => {
    refuseIdempotencyKey(request)
    return handler(request)
  }
}

/** Returns the handler of a resource; one that declines all requests if it has no methods. */
function orNothing<C>(methods: Methods<C>): Handler<C> {
  return Object.keys(methods).length > 0 ? resource<C>(methods) : () => undefined
}
