import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { callbacks, httpSender } from '../../../src/callbacks/index.js'
import {
  ClientError, createClient, readNdjson, readPartialResults, verifyCallback, watchTask,
} from '../../../src/client/index.js'
import { blobsConformance, engineConformance, storeConformance } from '../../../conformance/index.js'
import { httpRoutes, taskMetrics, taskTracing } from '../../../adapters/opentelemetry/index.js'
import { cron } from '../../../adapters/cron/index.js'
import { cancelTasks, forgetTasks, operatorEndpoints, retryTasks } from '../../../src/operators/index.js'
import { S3Blobs } from '../../../adapters/s3/index.js'
import { partialResults } from '../../../src/partial/index.js'
import { fastifyLonghaul, toFastify } from '../../../adapters/fastify/index.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { fileSource, FolderBlobs, folderSource } from '../../../adapters/files/index.js'
import { toKoa } from '../../../adapters/koa/index.js'
import { memory, MemoryBlobs } from '../../../adapters/memory/index.js'
import { attach, closeOnSignal, toMiddleware, toNode } from '../../../adapters/node/index.js'
import { azureFormat } from '../../../src/azure/index.js'
import { csv } from '../../../src/csv/index.js'
import { streamJson } from '../../../adapters/stream-json/index.js'
import { testClock, testContext } from '../../../src/testing/index.js'
import { migrate, postgres } from '../../../adapters/postgres/index.js'
import { redis } from '../../../adapters/redis/index.js'
import { sqlite } from '../../../adapters/sqlite/index.js'
import { bullmqTask } from '../../../adapters/bullmq/index.js'
import { mcpTasks, mcpTool } from '../../../adapters/mcp/index.js'
import { consolePage, taskConsole } from '../../../adapters/console/index.js'
import * as bulk from '../../../src/bulk/index.js'
import * as content from '../../../src/content/index.js'
import { exportTask } from '../../../src/export/index.js'
import * as http from '../../../src/http/index.js'
import * as root from '../../../src/index.js'
import * as ndjson from '../../../src/ndjson/index.js'
import * as openapi from '../../../src/openapi/index.js'
import * as policies from '../../../src/policies/index.js'
import * as resources from '../../../src/resources/index.js'
import * as stores from '../../../src/stores/index.js'
import * as uploads from '../../../src/uploads/index.js'
import * as versions from '../../../src/versions/index.js'
import { fakeRequest } from '../kit/request.js'

const api = {
  ...root,
  ...bulk,
  ...content,
  ...http,
  ...ndjson,
  ...openapi,
  ...policies,
  ...resources,
  ...stores,
  ...uploads,
  ...versions,
}

/** Calls one function with these options. What else it needs is good. */
type Call = (options: never) => unknown

const handler = () => undefined
const policy = () => undefined
const request = fakeRequest({ body: '{}' })
const report = api.defineTask({ name: 'report', run: () => 1 })
const engine = memory()
const tasks = api.createTasks({ ...engine, definitions: [report] })
const endpoints = api.taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const client = createClient({
  baseUrl: 'http://127.0.0.1:9',
  fetch: () => Promise.reject(new Error('No request may be made')),
})
const typed = client.task('/report')
const handle = client.resume({ statusUrl: 'http://127.0.0.1:9/tasks/1' })
const select = [api.byPath()]
const bytes = async function* () { yield new Uint8Array() }
const runner = { describe: handler, test: handler } as never
const folder = `${tmpdir()}/longhaul-options`
const jobQueue = {
  name: 'jobs',
  add: handler,
  getJob: handler,
  getJobState: handler,
  remove: handler,
  on: handler,
} as never

/** Ends what the table holds open. */
export async function close(): Promise<void> {
  await tasks.close()
}

/** Every function with options, named as `publicOptions` names it. */
export const TABLE: Readonly<Record<string, Call>> = {
  'longhaul/policies: apiKey': (options) => api.apiKey(options),
  'longhaul/policies: authenticate': (options) => api.authenticate(options),
  'longhaul/policies: authorize': (options) => api.authorize(options),
  'longhaul/policies: basic': (options) => api.basic(options),
  'longhaul/policies: bearer': (options) => api.bearer(options),
  'longhaul/bullmq: bullmqTask': (options) =>
    bullmqTask({ name: 'a', queue: jobQueue, events: jobQueue, ...(options as object) }),
  'longhaul/console: consolePage': (options) => consolePage({ tasks: '/api/tasks', ...(options as object) }),
  'longhaul/console: taskConsole': (options) => taskConsole(tasks, { owner: () => 'ann', ...(options as object) }),
  'longhaul/mcp: mcpTool': (options) => mcpTool(report, options),
  'longhaul/mcp: mcpTasks': (options) =>
    mcpTasks(tasks, { tools: [mcpTool(report)], owner: 'anyone', ...(options as object) }),
  'longhaul/content: blobSource': (options) => api.blobSource(engine.blobs, 'key', options),
  'longhaul/openapi: body': (options) => api.body({}, options),
  'longhaul/bulk: bulkCreate': (options) => api.bulkCreate(options),
  'longhaul/bulk: bulkItems': (options) => api.bulkItems(options),
  'longhaul/ndjson: uploadItems': (options) => api.uploadItems(options),
  'longhaul/bulk: bulkUpdate': (options) => api.bulkUpdate(options),
  'longhaul/versions: byHeader': (options) => api.byHeader(options),
  'longhaul/versions: byMediaTypeParameter': (options) => api.byMediaTypeParameter(options),
  'longhaul/versions: byPath': (options) => api.byPath(options),
  'longhaul/versions: byQuery': (options) => api.byQuery(options),
  'longhaul/versions: byVendorMediaType': (options) => api.byVendorMediaType(options),
  'longhaul/resources: collection': (options) => api.collection(options),
  'longhaul/content: content': (options) => api.content(handler, options),
  'longhaul/resources: cors': (options) => api.cors(options),
  'longhaul/policies: crossSite': (options) => api.crossSite(options),
  'longhaul: createTasks': (options) => api.createTasks(options),
  'longhaul: defineTask': (options) => api.defineTask(options),
  'longhaul/versions: deprecated': (options) => api.deprecated(options),
  'longhaul: guard': (options) => api.guard(handler, options),
  'longhaul: httpError': (options) => api.httpError('conflict', options),
  'longhaul: HttpError': (options) => new api.HttpError(400, 'wrong', options),
  'longhaul/policies: idempotent': (options) => api.idempotent(options),
  'longhaul: jsonSchema': (options) => api.jsonSchema({}, options),
  'longhaul/policies: limitBody': (options) => api.limitBody(options),
  'longhaul/policies: limitConcurrency': (options) => api.limitConcurrency(options),
  'longhaul/policies: limitHeaders': (options) => api.limitHeaders(options),
  'longhaul/ndjson: LineReader': (options) => new api.LineReader(options),
  'longhaul/resources: list': (options) => api.list(options),
  'longhaul/ndjson: ndjsonBytes': (options) => api.ndjsonBytes([], options),
  'longhaul/ndjson: ndjsonDownload': (options) => api.ndjsonDownload(options),
  'longhaul/ndjson: ndjsonUpload': (options) => api.ndjsonUpload(options),
  'longhaul/openapi: openapi': (options) => api.openapi(handler, options),
  'longhaul/openapi: operation': (options) => api.operation('GET', options),
  'longhaul/openapi: parameter': (options) => api.parameter('query', 'q', options),
  'longhaul/policies: rateLimit': (options) => api.rateLimit(options),
  'longhaul/http: readBytes': (options) => api.readBytes(request, options),
  'longhaul/http: readJson': (options) => api.readJson(request, options),
  'longhaul/ndjson: readRecords': (options) => api.readRecords(bytes(), options),
  'longhaul/policies: requestId': (options) => api.requestId(options),
  'longhaul/openapi: response': (options) => api.response('Done', options),
  'longhaul/uploads: resumableUpload': (options) => api.resumableUpload(handler, options),
  'longhaul/stores: StoreUnavailableError': (options) => new api.StoreUnavailableError('away', options),
  'longhaul/resources: strictQuery': (options) =>
    api.strictQuery(api.list({ repository: { list: () => ({ items: [] }) } }), options),
  'longhaul: taskEndpoints': (options) => api.taskEndpoints(tasks, options),
  'longhaul: TaskEndpoints#submit': (options) => endpoints.submit(report, options),
  'longhaul/operators: operatorEndpoints': (options) => operatorEndpoints(tasks, options),
  'longhaul/operators: retryTasks': (options) => retryTasks(options),
  'longhaul/operators: cancelTasks': (options) => cancelTasks(options),
  'longhaul/operators: forgetTasks': (options) => forgetTasks(options),
  'longhaul: OwnedTasks#list': (options) => tasks.ownedBy('ann').list(options),
  'longhaul: OwnedTasks#submit': (options) => tasks.ownedBy('ann').submit(report, {}, options),
  'longhaul: OwnedTasks#wait': (options) => tasks.ownedBy('ann').wait('a', options),
  'longhaul: Tasks#close': (options) => tasks.close(options),
  'longhaul: Tasks#list': (options) => tasks.list(options),
  'longhaul: Tasks#ownedBy': (options) => tasks.ownedBy('ann', options),
  'longhaul: Tasks#submit': (options) => tasks.submit(report, {}, options),
  'longhaul: TaskHandle#wait': async (options) => (await tasks.submit(report, {})).wait(options),
  'longhaul: Tasks#wait': (options) => tasks.wait('a', options),
  'longhaul/policies: timeouts': (options) => api.timeouts(options),
  'longhaul: upstreamError': (options) => api.upstreamError(new Error('away'), options),
  'longhaul/versions: versionNeutral': (options) => api.versionNeutral(handler, options),
  'longhaul/versions: versions': (options) => api.versions({ 1: handler }, options),
  'longhaul/callbacks: callbacks': (options) => callbacks(options),
  'longhaul/callbacks: httpSender': (options) => httpSender(options),
  'longhaul/client: Client#bulk': (options) => client.bulk('/x', [], options),
  'longhaul/client: Client#download': (options) => client.download('/x', options),
  'longhaul/client: Client#records': (options) => client.records('/x', options).next(),
  'longhaul/client: Client#run': (options) => client.run('/x', {}, options),
  'longhaul/client: Client#submit': (options) => client.submit('/x', {}, options),
  'longhaul/client: Client#task': (options) => client.task('/x', options),
  'longhaul/client: Client#tasks': (options) => client.tasks('/x', options),
  'longhaul/client: Client#upload': (options) => client.upload('/x', [], options),
  'longhaul/client: Client#uploadFile': (options) => client.uploadFile('/films', new Blob(['x']), options),
  'longhaul/client: ClientError': (options) => new ClientError('code', 'message', options),
  'longhaul/client: createClient': (options) => createClient(options),
  'longhaul/client: readNdjson': (options) => readNdjson(bytes(), options).next(),
  'longhaul/client: readPartialResults': (options) =>
    readPartialResults(client, { statusUrl: undefined }, options).next(),
  'longhaul/client: watchTask': (options) => watchTask(client, handle, options),
  'longhaul/client: TaskHandle#answer': (options) => handle.answer({}, options),
  'longhaul/client: TaskHandle#cancel': (options) => handle.cancel(options),
  'longhaul/client: TaskHandle#changes': (options) => handle.changes(options),
  'longhaul/client: TaskHandle#file': (options) => handle.file('a.csv', options),
  'longhaul/client: TaskHandle#forget': (options) => handle.forget(options),
  'longhaul/client: TaskHandle#redeliver': (options) => handle.redeliver(options),
  'longhaul/client: TaskHandle#retry': (options) => handle.retry(options),
  'longhaul/client: TaskHandle#result': (options) => handle.result(options),
  'longhaul/client: TaskHandle#status': (options) => handle.status(options),
  'longhaul/client: TypedTask#run': (options) => typed.run({}, options),
  'longhaul/client: TypedTask#submit': (options) => typed.submit({}, options),
  'longhaul/callbacks: verifyCallback': (options) => verifyCallback('{}', {}, 'c2VjcmV0', options),
  'longhaul/client: verifyCallback': (options) => verifyCallback('{}', {}, 'c2VjcmV0', options),
  'longhaul/conformance: blobsConformance': (options) => blobsConformance(runner, handler as never, options),
  'longhaul/conformance: engineConformance': (options) => engineConformance(runner, handler as never, options),
  'longhaul/conformance: storeConformance': (options) => storeConformance(runner, handler as never, options),
  'longhaul/fastify: fastifyLonghaul': (options) =>
    new Promise<void>((resolve, reject) => {
      fastifyLonghaul({} as never, options, (error) => {
        if (error) reject(error)
        else resolve()
      })
    }),
  'longhaul/fastify: toFastify': (options) => toFastify(handler, options),
  'longhaul/fetch: toFetch': (options) => toFetch(handler, options),
  'longhaul/files: fileSource': (options) => fileSource('/x', options),
  'longhaul/files: FolderBlobs': (options) => new FolderBlobs(folder, options),
  'longhaul/files: FolderBlobs#put': async (options) => {
    const blobs = new FolderBlobs(folder)
    try {
      await blobs.put('key', bytes(), options)
    } finally {
      await blobs.close()
    }
  },
  'longhaul/files: folderSource': (options) => folderSource(tmpdir(), options),
  'longhaul/opentelemetry: httpRoutes': (options) => httpRoutes(options),
  'longhaul/opentelemetry: taskMetrics': (options) => taskMetrics(options),
  'longhaul/opentelemetry: taskTracing': (options) => taskTracing(options),
  'longhaul/s3: S3Blobs': (options) => new S3Blobs(options),
  'longhaul/s3: S3Blobs#put': async (options) => {
    const blobs = new S3Blobs({ client: { send: handler } as never, bucket: 'blobs' })
    await blobs.put('key', bytes(), options).finally(() => blobs.close())
  },
  'longhaul/cron: cron': (options) => cron('0 3 * * *', options),
  'longhaul/partial: partialResults': (options) => partialResults(options),
  'longhaul/azure: azureFormat': (options) => azureFormat(options),
  'longhaul/csv: csv': (options) => csv(options),
  'longhaul/stream-json: streamJson': (options) => streamJson(() => [], options),
  'longhaul/koa: toKoa': (options) => toKoa(handler, options),
  'longhaul/memory: memory': (options) => memory(options),
  'longhaul/memory: MemoryBlobs': (options) => new MemoryBlobs(options),
  'longhaul/memory: MemoryBlobs#put': (options) => engine.blobs.put('key', bytes(), options),
  'longhaul/export: exportTask': (options) => exportTask(options),
  'longhaul/testing: TaskFiles#write': (options) =>
    testContext(api.defineTask({ name: 'files', files: true, run: () => 1 })).files.write('a', '', options),
  'longhaul/testing: testClock': (options) => testClock(options),
  'longhaul/testing: testContext': (options) => testContext(report, options),
  'longhaul/node: attach': (options) => attach(createServer(), handler, options),
  'longhaul/node: closeOnSignal': (options) => closeOnSignal(options),
  'longhaul/node: toMiddleware': (options) => toMiddleware(policy, options),
  'longhaul/node: toNode': (options) => toNode(handler, options),
  'longhaul/postgres: migrate': (options) => migrate({ connect: handler, on: handler } as never, options),
  'longhaul/postgres: postgres': (options) => postgres(options),
  'longhaul/sqlite: sqlite': (options) => sqlite(options),
  'longhaul/sqlite: Blobs#put': async (options) => {
    const { blobs } = sqlite({ database: { exec: handler, prepare: handler } as never, folder })
    await blobs.put('key', bytes(), options).finally(() => blobs.close())
  },
  'longhaul/postgres: PostgresBlobs#put': async (options) => {
    const { blobs } = postgres({ pool: { connect: handler, on: handler } as never })
    try {
      await blobs.put('key', bytes(), options)
    } finally {
      await blobs.close()
    }
  },
  'longhaul/redis: redis': (options) => redis(options),
}

/** Options in options, and options of single requests. */
export const NESTED: Readonly<Record<string, Call>> = {
  'defineTask: backoff': (backoff) => api.defineTask({ name: 'a', run: handler, backoff }),
  'rateLimit: a policy': (each) => api.rateLimit({ store: engine.store, onStoreError: 'deny', policies: [each] }),
  'authenticate: cache': (cache) => api.authenticate({ schemes: [api.bearer({ verify: handler })], cache }),
  'versions: one of them': (version) => api.versions({ 1: version }, { select }),
  'memory: blobs': (blobs) => memory({ blobs }),
  'memory: store': (store) => memory({ store }),
  'bulkCreate: background': (background) => api.bulkCreate({ repository: { createMany: () => [] }, background }),
  'bulkUpdate: background': (background) => (
    api.bulkUpdate({ repository: { updateMany: () => [] }, id: () => 1, change: () => 1, background })
  ),
  'taskEndpoints: list': (list) => api.taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', list }),
  'fileSource: digests': (digests) => fileSource('/x', { digests }),
  'folderSource: digests': (digests) => folderSource(tmpdir(), { digests }),
  'ndjsonUpload: background': (background) => api.ndjsonUpload({ write: handler, background }),
  'callbacks: backoff': (backoff) => callbacks({ secrets: () => [], backoff }),
  'createClient: retry': (retry) => createClient({ baseUrl: 'http://127.0.0.1:9', retry }),
  'createClient: poll': (poll) => createClient({ baseUrl: 'http://127.0.0.1:9', poll }),
  'MemoryBlobs: open': (range) => engine.blobs.open('key', range),
}

const CONTRACT = 'longhaul calls it for every task, with options that it makes itself'

/** Functions with options that need no check, and why. */
export const EXEMPT: Readonly<Record<string, string>> = {
  'longhaul/engine: LeasedWork': CONTRACT,
  'longhaul/engine: LeasedRun': CONTRACT,
  'longhaul/memory: MemoryTaskEngine#create': CONTRACT,
  'longhaul/memory: MemoryTaskEngine#work': CONTRACT,
  'longhaul/memory: MemoryTaskEngine#close': CONTRACT,
  'longhaul/redis: RedisTaskEngine#create': CONTRACT,
  'longhaul/redis: RedisTaskEngine#delete': CONTRACT,
  'longhaul/redis: RedisTaskEngine#work': CONTRACT,
  'longhaul/redis: RedisTaskEngine#close': CONTRACT,
  'longhaul/postgres: PostgresTaskEngine#create': CONTRACT,
  'longhaul/postgres: PostgresTaskEngine#work': CONTRACT,
  'longhaul/postgres: PostgresTaskEngine#close': CONTRACT,
  'longhaul/memory: MemoryStore#create': CONTRACT,
  'longhaul/memory: MemoryStore#increment': CONTRACT,
  'longhaul/memory: MemoryStore#replace': CONTRACT,
  'longhaul/postgres: PostgresStore#create': CONTRACT,
  'longhaul/postgres: PostgresStore#increment': CONTRACT,
  'longhaul/postgres: PostgresStore#replace': CONTRACT,
  'longhaul/redis: RedisStore#create': CONTRACT,
  'longhaul/sqlite: SqliteTaskEngine#create': CONTRACT,
  'longhaul/sqlite: SqliteTaskEngine#work': CONTRACT,
  'longhaul/sqlite: SqliteTaskEngine#close': CONTRACT,
  'longhaul/sqlite: SqliteStore#create': CONTRACT,
  'longhaul/sqlite: SqliteStore#increment': CONTRACT,
  'longhaul/sqlite: SqliteStore#replace': CONTRACT,
  'longhaul/redis: RedisStore#increment': CONTRACT,
  'longhaul/redis: RedisStore#replace': CONTRACT,
}
