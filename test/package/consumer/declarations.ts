// A user's module that exports what the functions of longhaul return. Its declarations name their types.
import { createTasks, defineTask, taskEndpoints, router, compose, jsonSchema, guard, type TaskContext } from 'longhaul'
import { memory } from 'longhaul/memory'
import { createClient } from 'longhaul/client'
import { rateLimit, authenticate, bearer, tokens, idempotent, limitConcurrency } from 'longhaul/policies'
import { ndjsonUpload, ndjsonDownload, readRecords, ndjsonBytes } from 'longhaul/ndjson'
import { bulkCreate, bulkUpdate } from 'longhaul/bulk'
import { exportTask } from 'longhaul/export'
import { resumableUpload } from 'longhaul/uploads'
import { content, blobSource } from 'longhaul/content'
import { collection, list } from 'longhaul/resources'
import { versions, byPath } from 'longhaul/versions'
import { openapi, operation } from 'longhaul/openapi'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { parsePrefer, negotiate, readJson } from 'longhaul/http'
import { fileSource, folderSource, FolderBlobs } from 'longhaul/files'
import { toNode, toMiddleware } from 'longhaul/node'
import { toFetch } from 'longhaul/fetch'
import { inject, testClock, testContext } from 'longhaul/testing'
import { redis, type RedisClient } from 'longhaul/redis'
import { postgres, type PostgresPool } from 'longhaul/postgres'
import 'longhaul/stores'
import 'longhaul/engine'

export const parts = memory()
export const { engine, store, blobs } = memory()
export const report = defineTask({
  name: 'report',
  input: jsonSchema<{ year: number }>({ type: 'object' }),
  run: ({ year }) => ({ message: String(year) }),
})
export const tasks = createTasks({ ...parts, definitions: [report] })
export const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
export const { submit, status } = endpoints
export const handler = router({ 'POST /': submit(report) })
export const composed = compose(rateLimit({ store, policies: [], onStoreError: 'deny' }), handler)
export const guarded = guard(handler)
export async function health() { return tasks.health() }
export async function get(id: string) { return tasks.get(id) }
export async function done(id: string) {
  const t = await tasks.get(id, report)
  return t?.status === 'completed' ? t : undefined
}
export async function attempts(id: string) { return (await tasks.get(id))?.attempts }
export async function lastAttempt(id: string) { return (await tasks.get(id))?.attempts?.at(-1) }
export async function callback(id: string) { return (await tasks.get(id))?.callback }
export async function page() { return tasks.list({ status: 'failed' }) }
export async function submitted() { return tasks.submit(report, { year: 1 }) }
export function filesOf(context: TaskContext) { return context.files }
export function progressOf(context: TaskContext) { return context.progress }
export function cp(context: TaskContext) { return context.checkpoint }
export const client = createClient({ baseUrl: 'http://x' })
export const typed = client.task<typeof report>('/r')
export async function run() { return client.run('/x', {}) }
export async function sub() { return client.submit('/x', {}) }
export async function changes() { for await (const s of (await sub()).changes()) return s; return undefined }
export async function clientDone() {
  for await (const s of (await sub()).changes()) if (s.status === 'completed') return s
  return undefined
}
export async function lists() { return client.tasks('/x').page() }
export async function up() { return client.upload('/x', []) }
export const upf = () => client.uploadFile('/x', new Uint8Array())
export const dl = () => client.download('/x')
export async function bulk() { return client.bulk('/x', []) }
export const auth = authenticate({ schemes: [bearer({ verify: tokens({ a: { subject: 'a' } }) })] })
export const idem = idempotent({ store, caller: 'principal' })
export const limited = limitConcurrency({ maxConcurrent: 1 })
export const upload = ndjsonUpload({ write: async (records) => undefined })
export const uploadB = ndjsonUpload({ write: async (records) => undefined, background: { name: 'x', blobs } })
export const down = ndjsonDownload({ records: () => [] })
export const recs = () => readRecords((async function* () { yield new Uint8Array() })())
export async function firstBatch() { for await (const b of recs()) return b; return undefined }
export const bytes = ndjsonBytes([])
export const bc = bulkCreate({ repository: { createMany: () => [] } })
export const bcb = bulkCreate({ repository: { createMany: () => [] }, background: { name: 'b', blobs } })
export const bu = bulkUpdate({
  repository: { updateMany: () => [] },
  id: (x: { id: string }) => x.id,
  change: (x) => x,
})
export const ex = exportTask({ name: 'e', records: () => [] })
export const ru = resumableUpload(handler, { store, blobs, owner: 'anyone', uploadPath: '/u/{id}' })
export const { create, resource } = ru
export const c = content(() => undefined)
export const bs = blobSource(blobs, 'key')
export const col = collection({ repository: { list: () => ({ items: [] }) }, schema: jsonSchema({}) })
export const l = list({ repository: { list: () => ({ items: [] }) } })
export const v = versions({ 1: handler }, { select: [byPath()] })
export const doc = openapi(handler, { info: { title: 'a', version: '1' } })
export const op = operation('GET', { summary: 'a', responses: {} })
export const cb = callbacks({ secrets: () => [] })
export const hs = httpSender()
export const pref = parsePrefer('wait=1')
export const neg = negotiate('a/b', ['a/b'])
export const readJ = readJson
export const fs = fileSource('/x')
export const fold = folderSource('/x')
export const fb = new FolderBlobs('/x')
export const n = toNode(handler)
export const m = toMiddleware((request, next) => next(request))
export const f = toFetch(handler)
export const inj = () => inject(handler, { path: '/' })
export const clock = testClock()
export const ctx = testContext(report)
export const written = testContext(report).files
export const r = (client: RedisClient) => redis({ client })
export const p = (pool: PostgresPool) => postgres({ pool })
export const { store: ps } = postgres({ pool: {} as PostgresPool })
export const entry = () => store.get('a')
export const created = () => store.create('a', 'b', { ttlMs: 1 })
export const opened = () => blobs.open('a')
export const stat = () => blobs.stat('a')
export const fx = toFetch(compose((request, next) => next(request), handler))
export async function clientAttempts() { return (await (await sub()).status()).attempts }
export async function clientCallback() { return (await (await sub()).status()).callback }
export async function clientProgress() { return (await (await sub()).status()).progress }
export async function batchErrors() { return (await firstBatch())?.errors }
export async function sent() { return engine.list({ limit: 1 } as never) }
export async function uploadItems() { return (await up()).items }
export async function bulkItemsOf() { return (await bulk()).items }
export const snapshot = tasks.pools
