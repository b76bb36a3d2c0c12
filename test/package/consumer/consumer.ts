// A user's program, compiled and run against the installed package as an ES module and as CommonJS.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { fastify } from 'fastify'
import Koa from 'koa'
import { blobSource, content } from 'longhaul/content'
import { compose, createTasks, defineTask, jsonSchema, router, taskEndpoints, type Handler } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { parsePrefer } from 'longhaul/http'
import { ndjsonDownload, ndjsonUpload } from 'longhaul/ndjson'
import { openapi } from 'longhaul/openapi'
import { requestId } from 'longhaul/policies'
import { isWorkerClosing, type TaskEngine } from 'longhaul/engine'
import { collection, type Repository } from 'longhaul/resources'
import { isStoreUnavailable, type Store } from 'longhaul/stores'
import { exportTask } from 'longhaul/export'
import { resumableUpload } from 'longhaul/uploads'
import { byPath, versions } from 'longhaul/versions'
import { callbacks, httpSender, verifyCallback, type CallbackRequest, type CallbackSender } from 'longhaul/callbacks'
import { readNdjson } from 'longhaul/client'
import { blobsConformance, engineConformance, storeConformance } from 'longhaul/conformance'
import { fastifyLonghaul } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { fileSource, FolderBlobs, folderSource } from 'longhaul/files'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { postgres, type PostgresPool } from 'longhaul/postgres'
import { redis, type RedisClient, type RedisOptions } from 'longhaul/redis'
import { azureFormat } from 'longhaul/azure'
import { csv } from 'longhaul/csv'
import { streamJson } from 'longhaul/stream-json'
import { cron } from 'longhaul/cron'
import { operatorEndpoints, retryTasks } from 'longhaul/operators'
import { S3Blobs } from 'longhaul/s3'
import { partialResults } from 'longhaul/partial'
import { sqlite } from 'longhaul/sqlite'
import { bullmqTask } from 'longhaul/bullmq'
import { mcpTasks, mcpTool } from 'longhaul/mcp'
import { consolePage, taskConsole } from 'longhaul/console'
import { httpRoutes, taskMetrics, taskTracing } from 'longhaul/opentelemetry'
import { inject, testClock, testContext } from 'longhaul/testing'

const double = defineTask({
  name: 'double',
  input: jsonSchema<{ amount: number }>({
    type: 'object',
    required: ['amount'],
    properties: { amount: { type: 'integer' } },
  }),
  run: ({ amount }, { progress }) => {
    progress(1, 1)
    return { message: `doubled ${amount.toFixed()}`, amount: amount * 2 }
  },
})

interface User { id: string }

const { engine, store } = memory()
const sent: CallbackRequest[] = []
const sender: CallbackSender = {
  check: httpSender({ timeoutMs: 1000 }).check,
  send: async (request) => {
    sent.push(request)
    return Promise.resolve({ status: 200 })
  }
}
const secrets = () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']
const words = partialResults<string>({ store })
const speech = defineTask({
  name: 'speech',
  external: words.external,
  run: words.run(async (_: object, { emit }) => emit('hello')),
})
const nightly = defineTask({
  name: 'nightly',
  schedule: cron('0 3 * * *', { timezone: 'Europe/Vienna' }),
  run: () => ({ message: 'done' }),
})
const retries = retryTasks()
const tasks = createTasks({
  engine,
  store,
  definitions: [double, nightly, speech, retries],
  tracing: taskTracing(),
  callbacks: callbacks({ sender, secrets }),
})
const endMetrics = taskMetrics({ tasks })
httpRoutes()()
endMetrics()
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const operators = operatorEndpoints(tasks, {
  statusPath: '/admin/{id}',
  operator: ({ context }) => context.user?.role === 'admin',
  retries,
})
const handler: Handler = router({
  'POST /double': endpoints.submit(double),
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
})

const headers = { 'content-type': 'application/json' }
const post = (body: unknown, prefer?: string): RequestInit => ({
  method: 'POST', body: JSON.stringify(body), headers: prefer === undefined ? headers : { ...headers, prefer }
})

async function main(): Promise<void> {
  const server = createServer(toNode(handler))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port.toFixed()}`

  const direct = await fetch(`${base}/double`, post({ amount: 2 }))
  assert.equal(direct.status, 200)
  assert.deepEqual(await direct.json(), { message: 'doubled 2', amount: 4 })

  const accepted = await fetch(`${base}/double`, post({ amount: 3 }, 'respond-async'))
  assert.equal(accepted.status, 202)
  const location = accepted.headers.get('location')
  assert.ok(location !== null)

  const done = await toFetch(handler)(new Request(base + location, { headers: { prefer: 'wait=10' } }))
  assert.equal(done.status, 200)
  const { status, result } = await done.json() as { status: string, result: unknown }
  assert.deepEqual({ status, result }, { status: 'completed', result: { message: 'doubled 3', amount: 6 } })

  assert.equal((await inject(operators.list, { path: '/admin/tasks' })).status, 401)
  const listed = await inject(operators.list, { path: '/admin/tasks', context: { user: { role: 'admin' } } })
  assert.equal((await listed.json<{ items: unknown[] }>()).items.length, 1)
  assert.equal(
    (await inject(operators.retryMany, { method: 'POST', path: '/admin/retry', context: { user: { role: 'admin' } } }))
      .status,
    202,
  )

  const bad = await fetch(`${base}/double`, post({ amount: 'many' }))
  assert.equal(bad.status, 400)
  assert.equal((await bad.json() as { code: string }).code, 'invalid_input')

  // An error is recognised across entry points, which may hold different copies of its class.
  const small = memory({ store: { maxEntries: 1 } })
  const write = async (key: string) => small.store.create(key, '', { ttlMs: 60_000 })
  await write('a')
  await assert.rejects(write('b'), isStoreUnavailable)
  await small.store.close()

  await told()
  await files()
  await exportedFile()
  await vocabulary()
  await sources()
  await frameworks()

  // What needs a server of its own is compiled, and is there.
  const onRedis = (client: RedisClient): Store => redis({ client }).store
  const onPostgres = (pool: PostgresPool): Store => postgres({ pool }).store
  const redisEngine = (options: RedisOptions): TaskEngine => redis(options).engine
  for (const each of [
    onRedis, onPostgres, redisEngine, sqlite, bullmqTask, mcpTasks, mcpTool, consolePage, taskConsole, S3Blobs,
    storeConformance, engineConformance, blobsConformance, inject, testClock, testContext,
  ])
    assert.equal(typeof each, 'function')
  assert.equal(isWorkerClosing(new Error('no')), false)
  assert.equal(parsePrefer('wait=5').wait, 5)

  server.close()
  server.closeAllConnections()
  await tasks.close()
  await store.close()
}

/** A callback is signed and sent, and shown. What it takes comes from an entry point of its own. */
async function told(): Promise<void> {
  await assert.rejects(tasks.submit(double, { amount: 4 }, { callbackUrl: 'http://127.0.0.1/' }), {
    code: 'callback_url_forbidden',
  })
  const { taskId: id } = await tasks.submit(double, { amount: 4 }, { callbackUrl: 'https://example.com/hook' })
  for (let tries = 0; tries < 500 && (await tasks.get(id))?.callback?.state !== 'delivered'; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  assert.equal((await tasks.get(id))?.callback?.state, 'delivered')
  assert.deepEqual(sent.map(({ url }) => url), ['https://example.com/hook'])
  const message = await verifyCallback(sent[0]?.body ?? '', sent[0]?.headers ?? {}, secrets())
  assert.equal(message.data.status, 'completed')
}

/** An export ends in a file. */
async function exportedFile(): Promise<void> {
  const users = exportTask({ name: 'users', format: 'csv', records: () => [{ id: 1 }] })
  const engine = memory()
  const own = createTasks({ ...engine, definitions: [users] })
  const { taskId } = await own.submit(users, {})
  const end = await own.wait(taskId, { timeoutMs: 10_000 })
  assert.ok(end?.status === 'completed')
  assert.deepEqual(end.files?.map(({ name, size }) => [name, size]), [['users.csv', 7]])
  await own.close()
  await engine.store.close()
  await engine.blobs.close()
}

/** Records go into the blobs of a folder as they were sent; a task reads them; files and blobs are served in parts. */
async function files(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-consumer-'))
  const blobs = new FolderBlobs(join(folder, 'blobs'))
  const users: { id: number }[] = []
  const upload = ndjsonUpload<{ id: number }>({
    write: (records) => { users.push(...records) }, background: { name: 'read', blobs },
  })
  const own = memory()
  const uploads = createTasks({ ...own, definitions: [upload.task] })
  const endpoints = taskEndpoints(uploads, { statusPath: '/status/{id}', owner: 'anyone' })
  const path = join(folder, 'digits.txt')
  await writeFile(path, '0123456789')
  await blobs.put('letters', letters(), { ttlMs: 60_000 })
  const serve = toFetch(router({
    'POST /users': upload.handler(endpoints),
    'GET /users': ndjsonDownload<{ id: number }>({ records: () => users, codings: [] }),
    'GET|HEAD|DELETE /status/{id}': endpoints.status,
    'GET|HEAD /digits': content(fileSource(path)),
    'GET|HEAD /folder/{name}': content(folderSource(folder, { path: ({ params }) => params['name'] })),
    'GET|HEAD /letters': content(() => blobSource(blobs, 'letters'))
  }))
  const resumable = resumableUpload(
    ({ headers }) => ({ status: 200, headers: {}, body: String(headers['content-length']) }),
    {
      blobs,
      store: own.store,
      owner: 'anyone',
      uploadPath: '/uploads/{id}',
    },
  )
  const whole = await inject(resumable.create, {
    method: 'POST',
    path: '/',
    headers: { 'upload-complete': '?1' },
    body: 'hello',
  })
  assert.equal(await whole.text(), '5')
  const ask = (to: string, init: RequestInit = {}): Promise<Response> =>
    Promise.resolve(serve(new Request(`http://127.0.0.1${to}`, init)))
  const lines = (body: string, prefer: string): RequestInit => ({
    method: 'POST',
    body,
    headers: { 'content-type': 'application/x-ndjson', prefer },
  })

  const direct = await ask('/users', lines('{"id":1}\nnonsense\n{"id":2}\n', 'respond-sync'))
  assert.equal(((await direct.json()) as { summary: { failed: number } }).summary.failed, 1)
  const later = await ask('/users', lines('{"id":3}\n', 'respond-async'))
  assert.equal(later.status, 202)
  await ask(later.headers.get('location') ?? '', { headers: { prefer: 'wait=10' } })
  const all: unknown[] = []
  const { body } = await ask('/users')
  if (body) for await (const record of readNdjson(body)) all.push(record)
  assert.deepEqual(all, [{ id: 1 }, { id: 2 }, { id: 3 }])

  for (const [to, part] of [['/digits', '234'], ['/folder/digits.txt', '234'], ['/letters', 'cde']] as const) {
    const answer = await ask(to, { headers: { range: 'bytes=2-4' } })
    assert.deepEqual([answer.status, await answer.text()], [206, part])
  }
  await uploads.close()
  await blobs.close()
  await own.store.close()
  await rm(folder, { recursive: true, force: true })
}

/** A policy in front of a collection and a bulk endpoint, in versions, with their OpenAPI document. */
async function vocabulary(): Promise<void> {
  const users = new Map<string, User>()
  const write = (user: User): User => {
    users.set(user.id, user)
    return user
  }
  const repository: Repository<User, User> = {
    get: (id) => users.get(id),
    list: () => ({ items: [...users.values()] }),
    createMany: (drafts) => drafts.map(write),
  }
  const schema = jsonSchema<User>({ type: 'object', required: ['id'], properties: { id: { type: 'string' } } })
  const { list, item } = collection({ path: '/users', repository, schema })
  const both = router({
    '/users': list,
    '/users/{id}': item,
    'POST /bulk': bulkCreate<User, User>({ repository, schema }),
  })
  const handler = compose(requestId(), versions({ '1.0.0': both }, { select: [byPath()] }))
  const ask = toFetch(handler)
  const made = await ask(new Request('http://127.0.0.1/v1/bulk', post([{ id: 'a' }])))
  assert.equal(made.status, 201)
  assert.ok(made.headers.get('x-request-id'))
  assert.deepEqual(await (await ask(new Request('http://127.0.0.1/v1/users/a'))).json(), { id: 'a' })
  assert.match(openapi(handler, { info: { title: 'Users', version: '1.0.0' } })['openapi'] as string, /^3\.1\./)
}

/** A source of records for uploads; the pipeline is one of the application. */
async function sources(): Promise<void> {
  assert.deepEqual(csv().mediaTypes, ['text/csv'])
  assert.equal(azureFormat().notFound, 'task_not_found')
  const source = streamJson(() => [
    new Transform({
      readableObjectMode: true,
      transform: (_, __, done) => {
        done(null, { key: 0, value: { id: 1 } })
      },
    }),
  ])
  const upload = ndjsonUpload({ source, write: (records) => { assert.deepEqual(records, [{ id: 1 }]) } })
  const answer = await inject(upload, { method: 'POST', path: '/', body: [1] })
  assert.equal(answer.status, 200)
}

/** The plug-ins of frameworks, in apps of the user's own. */
async function frameworks(): Promise<void> {
  const app = fastify()
  app.register(fastifyLonghaul, { prefix: '/api', handler })
  const koa = new Koa()
  koa.use(toKoa(handler))
  const server = createServer((req, res) => { void koa.callback()(req, res) }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  for (const base of [
    `${await app.listen({ host: '127.0.0.1', port: 0 })}/api`,
    `http://127.0.0.1:${(server.address() as AddressInfo).port.toFixed()}`,
  ]) {
    const answer = await fetch(`${base}/double`, post({ amount: 4 }))
    assert.deepEqual(await answer.json(), { message: 'doubled 4', amount: 8 })
  }
  await app.close()
  server.close()
  server.closeAllConnections()
}

async function* letters(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('abcdef')
}

main().catch((error: unknown) => {
  console.error(error)
  // What a failed step has opened would keep the process alive.
  process.exit(1)
})
