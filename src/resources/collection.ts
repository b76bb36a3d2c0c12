import type { Handler, HttpRequest } from '../http/exchange.js'
import { refuseIdempotencyKey } from '../http/respond.js'
import {
  bytes, flag, func, readOptions, text, value, type OptionTable,
} from '../runtime/options.js'
import { isSchema } from '../schema/schema.js'
import { Items, type CollectionOptions } from './items.js'
import { LIST_OPTIONS, listHandler } from './list.js'
import { resource, type Methods } from './methods.js'
import { collectionOperations } from './operations.js'
import { router } from './router.js'

const SCHEMA = 'a zod, valibot or arktype schema, or jsonSchema({ … })'
const OPTIONS = {
  ...LIST_OPTIONS,
  schema: value(SCHEMA, isSchema, { required: true }),
  changeSchema: value(SCHEMA, isSchema),
  id: value('{ parse, of }', (id) => typeof id === 'object'),
  path: text({ default: '/' }),
  param: text({ default: 'id' }),
  requirePreconditions: flag({ default: false }),
  etag: func(),
  maxBodyBytes: bytes({ min: 1, default: 1_048_576 }),
} satisfies OptionTable<CollectionOptions<object>>

/** A handler for a collection, and the handlers of its two resources. */
export interface Collection<C = unknown> extends Handler<C> {
  /** GET (a page, see `list`), HEAD, POST, OPTIONS. */
  readonly list: Handler<C>
  /** GET, HEAD, PUT, PATCH, DELETE, OPTIONS of one record, named by the path parameter. */
  readonly item: Handler<C>
}

/**
 * Serves the records of a repository over HTTP, at `path` and `path/{id}`. Its two resources are
 * also the handlers `list` and `item`. A method that the repository does not have gets a 405.
 *
 * - GET and HEAD: a page (see `list`), or the record with its ETag; 304, 404.
 * - POST creates: 201 with Location, ETag and the record.
 * - PUT replaces: 200, or creates: 201 with Location. An id in the body must be that of the path.
 * - PATCH changes the properties that the body names (a merge patch, RFC 7396): 200. It takes
 *   `application/json` and `application/merge-patch+json`; others get a 415 with Accept-Patch.
 * - DELETE: 204, or 404.
 * - `Prefer: return=minimal` (RFC 7240 section 4.2): 201 or 204 without a body.
 * - If-Match and If-None-Match (RFC 9110 section 13.1): 412 if they do not hold. Concurrent writes
 *   are excluded if the repository has `transaction`, whose `get` must lock the record unless
 *   transactions are serialisable.
 *
 * A change with an Idempotency-Key gets a 400 `idempotency_not_supported`, unless `idempotent()` is
 * in front. A body that does not fit the schema gets a 400 `invalid_input`. For a duplicate, the
 * repository throws 409 `conflict`.
 * @example
 * const users = collection({ repository, schema, path: '/users' })
 * router({ '/users': users, '/users/{id}': users })
 * @throws {TypeError} The repository has no method, or no `get` for conditions, or an option is not
 * valid.
 */
export function collection<
  Item extends object, Draft = Partial<Item>, Change = Partial<Draft>, Id = string, C = unknown,
>(options: CollectionOptions<Item, Draft, Change, Id>): Collection<C> {
  const settings = readOptions('collection', options, OPTIONS)
  const { repository, path, param } = settings
  for (const method of ['replace', 'update', 'delete'] as const) {
    if (!repository[method] || repository.get) continue
    throw new TypeError(`collection: a repository with ${method} needs get, for conditions`)
  }
  const items = new Items<Item, Draft, Change, Id>(settings)
  const about = collectionOperations(settings)
  const has = (needed: keyof typeof repository, methods: Methods<C>): Methods<C> => {
    return typeof repository[needed] === 'function' ? methods : {}
  }
  const many = {
    ...repository.list && { GET: listHandler<Item, C>(settings) },
    ...has('create', { POST: about('POST', keyless(items.create)) }),
  }
  const one = {
    ...has('get', { GET: about('GET', items.read) }),
    ...has('replace', { PUT: about('PUT', keyless(items.replace)) }),
    ...has('update', { PATCH: about('PATCH', keyless(items.update)) }),
    ...has('delete', { DELETE: about('DELETE', keyless(items.remove)) }),
  }
  if (Object.keys({ ...many, ...one }).length === 0) {
    throw new TypeError('collection: the repository has no method of list, create, get, replace, update, delete')
  }
  const parts = { list: orNothing(many), item: orNothing(one) }
  const routes: Record<string, Handler<C>> = {}
  if (Object.keys(many).length > 0) routes[path] = parts.list
  if (Object.keys(one).length > 0) routes[`${path === '/' ? '' : path}/{${param}}`] = parts.item
  return Object.assign(router<C>(routes), parts)
}

function keyless<R>(handler: (request: HttpRequest) => R): (request: HttpRequest) => R {
  return (request) => {
    refuseIdempotencyKey(request)
    return handler(request)
  }
}

function orNothing<C>(methods: Methods<C>): Handler<C> {
  return Object.keys(methods).length > 0 ? resource<C>(methods) : () => undefined
}
