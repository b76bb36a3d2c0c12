import { countingBody } from '../http/body/counted-body.js'
import { readJson } from '../http/body/body.js'
import { isJsonObject } from '../http/body/json.js'
import { httpError, isHttpError, notAcceptable, type HttpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../http/exchange.js'
import { negotiate } from '../http/headers/accept.js'
import { contentTag, evaluatePreconditions } from '../http/headers/preconditions.js'
import { isNotModified } from '../http/respond.js'
import { parsePrefer } from '../http/headers/prefer.js'
import { toReference } from '../http/request.js'
import type { Call, Repository } from '../repositories/repository.js'
import { FailedRecord, readRecord, readReturned } from '../repositories/returned.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { childPointer } from '../schema/pointer.js'
import { toDocumentSchema, validInput, type Schema } from '../schema/schema.js'
import type { ListOptions } from './list.js'
import { PATCH_TYPES } from './operations.js'

export interface IdFormat<Item, Id> {
  /** Reads a percent-decoded path segment. An id that is not valid gets a 404. */
  readonly parse: (text: string) => Id | undefined
  /** Returns the id of a record. */
  readonly of: (item: Item) => Id
}

/** Options of `collection`. */
export interface CollectionOptions<
  Item extends object, Draft = Partial<Item>, Change = Partial<Draft>, Id = string,
>
  extends Omit<ListOptions<Item>, 'repository'> {
  /** The source of the records. Its methods determine the HTTP methods. */
  readonly repository: Repository<Item, Draft, Change, Id>
  /** Schema of the bodies of POST and PUT. The repository gets the validated value. */
  readonly schema: Schema<Draft>
  /**
   * Schema of a patch. The repository gets the validated value. Default: the record with the patch
   * merged into it must satisfy `schema`.
   *
   * By default, the repository gets the patched properties, `null` for a removed one.
   */
  readonly changeSchema?: Schema<Change>
  /** Conversion between ids and paths. Default: a string, the property `id` of the record. */
  readonly id?: IdFormat<Item, Id>
  /** Path of the collection, if it routes requests itself. Default `/`. */
  readonly path?: string
  /** Path parameter with the id, if your framework routes requests to `item`. Default `id`. */
  readonly param?: string
  /**
   * If `true`, PUT, PATCH and DELETE without `If-Match` or `If-None-Match` get 428
   * `precondition_required` (RFC 6585 section 3). Default `false`.
   */
  readonly requirePreconditions?: boolean
  /** Returns the strong entity tag of a record with its quotes. Default: a hash of its JSON. */
  readonly etag?: (item: Item) => string
  /** Maximum size of a body, in bytes. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

const OFFERS = ['application/json']

type Request = HttpRequest<unknown>

/** The state before a write; `undefined` if it was not read. */
type Before<Item> = { readonly item: Item | undefined } | undefined

type ItemsOptions<Item extends object, Draft, Change, Id> =
  & CollectionOptions<Item, Draft, Change, Id>
  & { readonly param: string, readonly maxBodyBytes: number, readonly cacheControl: string }

export class Items<Item extends object, Draft, Change, Id> {
  readonly #options: ItemsOptions<Item, Draft, Change, Id>
  readonly #id: IdFormat<Item, Id>
  readonly #schemaHasId: boolean
  readonly #changeHasId: boolean

  constructor(options: ItemsOptions<Item, Draft, Change, Id>) {
    const { id, schema, changeSchema } = options
    this.#options = options
    this.#id = id ?? {
      parse: (text) => text as Id, of: (item) => (item as { readonly id?: Id }).id as Id,
    }
    this.#schemaHasId = mayHaveId(schema)
    this.#changeHasId = changeSchema === undefined || mayHaveId(changeSchema)
  }

  readonly create = countingBody(async (request) => {
    const { schema, maxBodyBytes } = this.#options
    const draft = await validInput(schema, await readBody(request, maxBodyBytes))
    const returned = await this.#options.repository.create?.(draft, callOf(request))
    const item = this.#checked(readRecord(returned, 'collection: repository.create'))
    const id = this.#id.of(item)
    const collectionPath = request.path.endsWith('/') ? request.path.slice(0, -1) : request.path
    const path = `${collectionPath}/${encodeURIComponent(String(id))}`
    return written(request, this.#shown(item), { path, created: true })
  })

  readonly read = async (request: Request): Promise<HttpResponse> => {
    if (negotiate(request.headers['accept'], OFFERS) === undefined) throw notAcceptable(OFFERS)
    const { repository } = this.#options
    const item = this.#itemOf('get', await repository.get?.(this.#idOf(request), callOf(request)))
    if (item === undefined) throw httpError('not_found')
    const { body, etag } = this.#shown(item)
    const { cacheControl } = this.#options
    const headers: ResponseHeaders = { etag, 'vary': 'Accept', 'cache-control': cacheControl }
    if (isNotModified(request, etag)) return { status: 304, headers }
    headers['content-type'] = 'application/json'
    return { status: 200, headers, body }
  }

  readonly replace = countingBody(async (request) => {
    const id = this.#idOf(request)
    this.#checkConditional(request)
    const body = await readBody(request, this.#options.maxBodyBytes)
    const wanted = this.#withoutId(body, request, this.#schemaHasId)
    const draft = await validInput(this.#options.schema, wanted)
    const write: Write<Item, Draft, Change, Id, Replaced<Item>> = async (repository, before) => {
      const done = this.#replaced(await repository.replace?.(id, draft, callOf(request)))
      // Another request has created or deleted the record since the read. Inside a transaction this
      // error undoes the write.
      if (before && (before.item === undefined) !== done.created) {
        throw httpError('precondition_failed')
      }
      return done
    }
    const { item, created } = await this.#guarded(request, id, 'may be new', write)
    return written(request, this.#shown(item), { path: request.path, created })
  })

  readonly update = countingBody(async (request) => {
    const id = this.#idOf(request)
    this.#checkConditional(request)
    const patch = await readBody(request, this.#options.maxBodyBytes, PATCH_TYPES)
    if (!isJsonObject(patch)) throw invalidInput('', 'must be object')
    const { changeSchema } = this.#options
    const hasId = changeSchema ? this.#changeHasId : this.#schemaHasId
    const wanted = this.#withoutId(patch, request, hasId)
    const change = changeSchema && await validInput(changeSchema, wanted)
    const write: Write<Item, Draft, Change, Id, Item | undefined> = async (repository, before) => {
      const isMerged = before?.item && change === undefined
      const done = isMerged ? await this.#merged(before.item, wanted) : change
      return this.#itemOf('update', await repository.update?.(id, done as Change, callOf(request)))
    }
    const item = await this.#guarded(request, id, changeSchema ? 'there' : 'looked at', write)
    if (item === undefined) throw httpError('not_found')
    return written(request, this.#shown(item), { path: request.path, created: false })
  })

  readonly remove = async (request: Request): Promise<HttpResponse> => {
    const id = this.#idOf(request)
    this.#checkConditional(request)
    const isDeleted = await this.#guarded(request, id, 'there', async (repository) => {
      const done = await repository.delete?.(id, callOf(request))
      // TypeORM removes the id of an entity that it has deleted.
      return typeof done === 'boolean' ? done : this.#returned('delete', done) !== undefined
    })
    if (!isDeleted) throw httpError('not_found')
    return { status: 204, headers: {} }
  }

  /**
   * Reads the record, evaluates the conditions, and writes, if possible in one transaction. Without
   * conditions it only writes, unless the record must be read anyway.
   */
  async #guarded<Result>(
    request: Request, id: Id, record: 'may be new' | 'there' | 'looked at',
    write: Write<Item, Draft, Change, Id, Result>,
  ): Promise<Result> {
    const { method, headers } = request
    const repository = this.#options.repository
    if (record !== 'looked at' && !isConditional(request)) return await write(repository, undefined)
    const call = callOf(request)
    let ended: { readonly result: Result } | undefined
    const work = async (inside: Repository<Item, Draft, Change, Id>): Promise<Result> => {
      const item = this.#itemOf('get', await inside.get?.(id, call))
      // RFC 9110 section 13.2.1: conditions are not evaluated if the request fails anyway.
      if (item === undefined && record !== 'may be new') throw httpError('not_found')
      const etag = item && this.#shown(item).etag
      const outcome = evaluatePreconditions({ method, headers, exists: item !== undefined, etag })
      if (outcome === 'failed') {
        throw httpError('precondition_failed', etag === undefined ? {} : { headers: { etag } })
      }
      ended = { result: await write(inside, { item }) }
      return ended.result
    }
    if (repository.transaction === undefined) return await work(repository)
    await repository.transaction(work, call)
    if (ended !== undefined) return (ended).result
    throw new TypeError('collection: transaction has resolved before its work; await work(…) in it')
  }

  /** Reads the value that a method returned for a record. Throws if this value is a failure. */
  #itemOf(method: 'get' | 'update', value: unknown): Item | undefined {
    const returned = this.#returned(method, value)
    return returned === undefined ? undefined : this.#checked(returned)
  }

  #returned(method: 'get' | 'update' | 'delete', value: unknown): object | undefined {
    const returned = readReturned(value, `collection: repository.${method}`)
    if (returned instanceof FailedRecord) throw returned.error
    return returned
  }

  /** Checks that an object is a record: it has an id. */
  #checked(record: object): Item {
    const item = record as Item
    const id: unknown = this.#id.of(item)
    if (id !== undefined && id !== null) return item
    throw new TypeError('collection: the record has no id; set the option id')
  }

  #replaced(value: unknown): Replaced<Item> {
    const source = 'collection: repository.replace'
    const { item, created } = readRecord(value, source) as Partial<Replaced<unknown>>
    if (typeof created !== 'boolean') throw new TypeError(`${source} must return { item, created }`)
    return { item: this.#checked(readRecord(item, source)), created }
  }

  async #merged(item: Item, patch: Readonly<Record<string, unknown>>): Promise<Change> {
    const merged = mergePatch(item, patch) as Readonly<Record<string, unknown>>
    const draft: unknown = await validInput(this.#options.schema, merged)
    const known = isJsonObject(draft) ? draft : {}
    for (const [name, value] of Object.entries(patch)) {
      // The schema has removed the property, so it is unknown. A removed property may be missing.
      if (value !== null && !Object.hasOwn(known, name)) {
        throw invalidInput(childPointer('', name), 'is not a known property')
      }
    }
    const members = Object.keys(patch).map((name) => [
      name, Object.hasOwn(known, name) ? known[name] : null,
    ])
    return Object.fromEntries(members) as Change
  }

  #idOf({ params }: Request): Id {
    const text = params[this.#options.param]
    if (text === undefined) {
      const advice = `mount item at a path such as /users/{${this.#options.param}}`
      throw new TypeError(`collection: no path parameter named ${this.#options.param}; ${advice}`)
    }
    const id = this.#id.parse(text)
    if (id === undefined) throw httpError('not_found')
    return id
  }

  /**
   * Checks that a body names no other record than the path. Removes the id if the schema has none.
   */
  #withoutId<T>(body: T, { params }: Request, schemaHasId: boolean): T {
    if (!isJsonObject(body) || !Object.hasOwn(body, 'id')) return body
    const { id, ...rest } = body as Readonly<Record<string, unknown>>
    const isId = typeof id === 'string' || typeof id === 'number'
    if (id !== undefined && !(isId && String(id) === params[this.#options.param])) {
      throw invalidInput('/id', 'must be the id in the path, or left out')
    }
    return schemaHasId ? body : rest as T
  }

  #checkConditional(request: Request): void {
    if (this.#options.requirePreconditions === true && !isConditional(request)) {
      throw httpError('precondition_required')
    }
  }

  #shown(item: Item): { readonly body: string; readonly etag: string } {
    const body = JSON.stringify(item)
    return { body, etag: this.#options.etag?.(item) ?? contentTag(body) }
  }
}

type Write<Item extends object, Draft, Change, Id, Result> = (
  repository: Repository<Item, Draft, Change, Id>, before: Before<Item>,
) => MaybePromise<Result>

interface Replaced<Item> { readonly item: Item, readonly created: boolean }

function mayHaveId(schema: Schema): boolean {
  const properties = toDocumentSchema(schema)?.['properties']
  return !isJsonObject(properties) || Object.hasOwn(properties, 'id')
}

function callOf({ signal, context }: Request): Call {
  return { signal, context }
}

function isConditional({ headers }: Request): boolean {
  return headers['if-match'] !== undefined || headers['if-none-match'] !== undefined
}

/** Reads the body as JSON. With `mediaTypes`, a 415 lists them as in RFC 5789 section 2.2. */
async function readBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, mediaTypes?: readonly string[],
): Promise<unknown> {
  if (mediaTypes === undefined) return await readJson(request, { maxBodyBytes })
  try {
    return await readJson(request, { maxBodyBytes, mediaTypes })
  } catch (error) {
    if (!isHttpError(error) || error.code !== 'unsupported_media_type') throw error
    const headers = { ...error.headers, 'accept-patch': mediaTypes.join(', ') }
    throw httpError('unsupported_media_type', { headers })
  }
}

function invalidInput(pointer: string, message: string): HttpError {
  return httpError('invalid_input', { details: [{ pointer, message }] })
}

interface Shown {
  readonly body: string
  readonly etag: string
}

interface Place {
  readonly path: string
  readonly created: boolean
}

/** Responds to a write: 201 with Location, 200, or 204 for a client that prefers no body. */
function written(
  { method, headers: asked }: HttpRequest<unknown>, { body, etag }: Shown, { path, created }: Place,
): HttpResponse {
  const wish = parsePrefer(asked['prefer']).return
  const minimal = wish === 'minimal'
  const headers: ResponseHeaders = { vary: 'Prefer' }
  const reference = toReference(path)
  if (created) headers['location'] = reference
  if (wish !== undefined) headers['preference-applied'] = `return=${wish}`
  // RFC 9110 section 9.3.4: the stored record may differ from the one that PUT sent, so a client
  // without the record must not get the tag.
  if (!(minimal && method === 'PUT')) headers['etag'] = etag
  if (minimal) return created ? { status: 201, headers, body: '' } : { status: 204, headers }
  headers['content-type'] = 'application/json'
  headers['content-location'] = reference
  return { status: created ? 201 : 200, headers, body }
}

/** Applies a JSON merge patch (RFC 7396) to a value, without changing either. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch
  const merged: Record<string, unknown> = isJsonObject(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, name)
    else merged[name] = mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, value)
  }
  return merged
}
