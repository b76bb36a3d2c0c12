// Types of bulk and NDJSON endpoints, compiled by `npm run types`: each is declared once.
import { expectTypeOf } from 'expect-type'
import { createTasks, jsonSchema, type Handler, type TaskEndpoints } from 'longhaul'
import {
  bulkCreate, bulkUpdate, type BackgroundBulk, type BulkTask, type BulkTaskResult,
} from 'longhaul/bulk'
import { memory } from 'longhaul/memory'
import type { Repository } from 'longhaul/resources'
import {
  ndjsonDownload, ndjsonUpload, type BackgroundUpload, type UploadResult, type UploadTask,
} from 'longhaul/ndjson'

interface Context { readonly tenant: string }
interface Draft { readonly email: string }
interface User extends Draft { readonly id: number }
interface Rename { readonly id: number, readonly name: string }
declare const users: { createMany(drafts: readonly Draft[]): Promise<User[]> }
declare const names: { update(id: number, name: string): Rename | undefined }
declare const endpoints: TaskEndpoints<Context>
const schema = jsonSchema<Draft>({ type: 'object' })
const { blobs, store, engine } = memory()
const background = { name: 'create-users', blobs }
const rename = { id: ({ id }: Rename) => id, change: ({ name }: Rename) => name }

/** Without `background` the result is a handler, and nothing else. */
export function withoutBackground(): void {
  expectTypeOf(bulkCreate({ repository: users, schema })).toEqualTypeOf<Handler>()
  expectTypeOf(bulkUpdate({ repository: names, ...rename })).toEqualTypeOf<Handler>()
  expectTypeOf(ndjsonUpload({ schema, write: () => undefined })).toEqualTypeOf<Handler>()
  expectTypeOf(bulkCreate<User, Draft, Context>({ repository: users })).toEqualTypeOf<Handler<Context>>()
  // @ts-expect-error no task without background
  void bulkCreate({ repository: users }).task
  // @ts-expect-error no task without background
  void bulkUpdate({ repository: names, ...rename }).task
  // @ts-expect-error no task without background
  void ndjsonUpload({ write: () => undefined }).task
  // @ts-expect-error it is a handler already
  bulkCreate({ repository: users }).handler(endpoints)
}

/** With `background` there are a task and a handler for endpoints of any context. */
export function withBackground(): void {
  const create = bulkCreate({ repository: users, background })
  const update = bulkUpdate({ repository: names, ...rename, background })
  const upload = ndjsonUpload({ write: () => undefined, background })
  expectTypeOf(create).toEqualTypeOf<BackgroundBulk>()
  expectTypeOf(update).toEqualTypeOf<BackgroundBulk>()
  expectTypeOf(upload).toEqualTypeOf<BackgroundUpload>()
  expectTypeOf(create.task).toEqualTypeOf<BulkTask>()
  expectTypeOf(upload.task).toEqualTypeOf<UploadTask>()
  expectTypeOf(create.handler(endpoints)).toEqualTypeOf<Handler<Context>>()
  expectTypeOf(upload.handler(endpoints)).toEqualTypeOf<Handler<Context>>()
  expectTypeOf<ReturnType<BulkTask['run']>>().toEqualTypeOf<BulkTaskResult | Promise<BulkTaskResult>>()
  expectTypeOf<ReturnType<UploadTask['run']>>().toEqualTypeOf<UploadResult | Promise<UploadResult>>()
  createTasks({ store, engine, definitions: [create.task, update.task, upload.task] })
  // @ts-expect-error endpoints are required
  create.handler()
  // @ts-expect-error endpoints are required
  upload.handler()
  // @ts-expect-error it is no handler before it has endpoints
  expectTypeOf(create).toExtend<Handler>()
  // @ts-expect-error a task goes into definitions, and not the whole
  createTasks({ store, engine, definitions: [create] })
  // @ts-expect-error blobs are required
  bulkCreate({ repository: users, background: { name: 'create-users' } })
  // @ts-expect-error a name is required
  ndjsonUpload({ write: () => undefined, background: { blobs } })
  // @ts-expect-error the endpoints are given to handler
  bulkCreate({ repository: users, background: { ...background, endpoints } })
}

/** The schema types what is written. */
export function typedBySchema(): void {
  ndjsonUpload({ schema, write: (records) => { expectTypeOf(records).toEqualTypeOf<Draft[]>() } })
  ndjsonUpload({ schema, background, write: (records) => { expectTypeOf(records).toEqualTypeOf<Draft[]>() } })
  bulkCreate({
    repository: users, schema,
    key: (item) => { expectTypeOf(item).toEqualTypeOf<Draft>(); return item.email },
    id: (user) => { expectTypeOf(user).toEqualTypeOf<User>(); return user.id },
  })
  // @ts-expect-error the repository takes other items than the schema returns
  bulkCreate({ repository: users, schema: jsonSchema<{ name: string }>({ type: 'object' }) })
  ndjsonDownload({ records: () => [{ id: 1 }], schema: { type: 'object' } })
  // @ts-expect-error records are objects
  ndjsonDownload({ records: () => [1, 2] })
  // @ts-expect-error the former names of the options
  ndjsonUpload({ write: () => undefined, maxBytes: 1 })
}

/** `null` is no record, errors and settled results are outcomes, and a number of rows is neither. */
export function whatIsReturned(): void {
  interface Found { find(id: number): Promise<User | null> }
  const { find } = {} as Found
  bulkUpdate({ repository: { update: (id: number, _: string) => find(id) }, ...rename })
  bulkUpdate({ repository: { updateMany: async () => [null, undefined, new Error('x'), { id: 1 }] }, ...rename })
  bulkCreate({
    repository: { createMany: async (drafts: readonly Draft[]) => Promise.allSettled(drafts.map((_, id) => find(id))) },
  })
  bulkCreate({ repository: { createMany: (): (User | Error)[] => [] }, schema })
  ndjsonUpload({ write: (records) => Promise.allSettled(records.map((_, id) => find(id))) })
  ndjsonUpload({ write: () => [null, undefined, new TypeError('x'), { status: 201, id: 1 }] })
  ndjsonUpload({ write: () => null })
  const repository: Repository<User, Draft, Draft, number> = {
    get: find, update: find, delete: find, list: () => ({ items: [], total: null, next: null }),
  }
  void repository
  // @ts-expect-error a number of rows
  bulkUpdate({ repository: { update: (_: number, __: string) => 1 }, ...rename })
  // @ts-expect-error a list of records
  bulkUpdate({ repository: { update: (_: number, __: string) => [{ id: 1 }] }, ...rename })
  // @ts-expect-error promises in a list
  bulkUpdate({ repository: { updateMany: () => [Promise.resolve({ id: 1 })] }, ...rename })
  const later = (drafts: readonly Draft[]) => drafts.map((_, id) => Promise.resolve({ id }))
  // @ts-expect-error promises in a list
  bulkCreate({ repository: { createMany: later } })
  // @ts-expect-error `true` for each
  bulkCreate({ repository: { createMany: () => [true] } })
  // @ts-expect-error a number of records
  ndjsonUpload({ write: () => 5 })
  // @ts-expect-error numbers of rows
  ndjsonUpload({ write: () => [1, 0] })
  // @ts-expect-error a number of rows
  const wrong: Repository<User> = { delete: () => 1 }
  void wrong
}
