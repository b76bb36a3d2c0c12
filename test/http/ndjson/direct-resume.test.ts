// Direct uploads with an Idempotency-Key whose connection breaks: a later request, also to another process, sends the rest.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { Redis } from 'ioredis'
import pg from 'pg'
import { createTasks, httpError, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { FolderBlobs } from 'longhaul/files'
import { memory, MemoryTaskEngine } from 'longhaul/memory'
import { ndjsonUpload, type UploadResult } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import { StoreUnavailableError, type Store } from 'longhaul/stores'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { RedisServer } from '../../servers/redis-server.js'
import { listen, type Running } from '../kit/hosts.js'
import { ask } from '../kit/wire.js'

interface Item { id: number, text?: string }

const COUNT = 12_000
const TEXT = 'x'.repeat(180)
/** 2.4 MB, with some bad lines. */
const lines = Array.from({ length: COUNT }, (_, at) => (
  at % 1000 === 500 ? `{"bad": ${at}` : JSON.stringify({ id: at, text: TEXT })
))
const BODY = Buffer.from(`${lines.join('\n')}\n`)
const BAD = 12
const folder = mkdtempSync(join(tmpdir(), 'longhaul-direct-'))
after(() => { rmSync(folder, { recursive: true }) })
const SUMMARY = { total: COUNT, succeeded: COUNT - BAD, failed: BAD }
const BAD_LINES = Array.from({ length: BAD }, (_, at) => 501 + at * 1000)

/** A web process: tasks and handlers of its own over a store. */
class Site {
  private constructor(
    private readonly running: Running, readonly port: number,
    private readonly tasks: { close(): Promise<void> },
  ) {}

  static async over(store: Store, written: Item[], onWrite: () => Promise<void> | void = () => undefined): Promise<Site> {
    const upload = ndjsonUpload<Item>({
      write: async (records) => {
        await onWrite()
        written.push(...records)
      },
      background: { name: 'items', blobs: new FolderBlobs(folder, { shared: true }) },
    })
    const tasks = createTasks({ engine: new MemoryTaskEngine(), store, definitions: [upload.task] })
    const endpoints = taskEndpoints(tasks, {
      statusPath: '/tasks/{id}',
      owner: ({ headers }: HttpRequest) => headers['x-owner'] as string | undefined ?? 'ann',
    })
    const server = createServer()
    attach(server, router({ 'POST /items': upload.handler(endpoints) }))
    const running = await listen(server)
    return new Site(running, running.port, tasks)
  }

  async send(key: string, body: Buffer | string, headers: Record<string, string> = {}) {
    const answer = await ask(this.port, 'POST', '/items', {
      headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': `"${key}"`, ...headers }, body,
    })
    const json = JSON.parse(answer.body) as UploadResult & { code?: string, committed?: { lines: number, bytes: number } }
    return { ...answer, json }
  }

  /** Asks for the committed part. */
  async committed(key: string): Promise<{ lines: number, bytes: number }> {
    const { status, json, headers } = await this.send(key, '', { 'upload-offset': '0' })
    assert.deepEqual([status, json.code], [409, 'upload_incomplete'])
    assert.equal(headers['upload-offset'], String(json.committed?.bytes))
    return json.committed as { lines: number, bytes: number }
  }

  /** Sends the first bytes of a body, and breaks the connection. */
  async broken(key: string, body: Buffer, bytes: number, headers = ''): Promise<void> {
    const socket = connect(this.port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write(`POST /items HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nIdempotency-Key: "${key}"\r\n`
      + `${headers}Content-Length: ${body.byteLength}\r\n\r\n`)
    await new Promise<void>((resolve) => { socket.write(body.subarray(0, bytes), () => { resolve() }) })
    await new Promise<void>((resolve) => { socket.end(resolve) })
    socket.destroy()
  }

  async close(): Promise<void> {
    await this.tasks.close()
    await this.running.close()
  }
}

function assertWhole(written: readonly Item[], json: UploadResult): void {
  assert.deepEqual(json.summary, SUMMARY)
  assert.deepEqual(json.errors.map(({ line }) => line), BAD_LINES)
  const ids = written.map(({ id }) => id).sort((a, b) => a - b)
  assert.equal(new Set(ids).size, ids.length, 'no record was written twice')
  assert.equal(ids.length, COUNT - BAD)
}

/** Continues until the server accepts the rest: what broke may still be writing its last batch. */
async function resume(site: Site, key: string) {
  for (;;) {
    const { bytes } = await site.committed(key)
    const answer = await site.send(key, BODY.subarray(bytes), {
      'upload-offset': String(bytes), ...bytes === BODY.byteLength && { 'upload-length': String(bytes) },
    })
    if (answer.status !== 409) return answer
  }
}

/** Sends all bytes until the server has accepted them: requests that broke may still be running. */
async function sendWhole(site: Site, key: string) {
  for (;;) {
    const answer = await site.send(key, BODY)
    if (answer.status !== 409) return answer
  }
}

/** The tests over one kind of store. */
function worksOver(name: string, open: () => Promise<{ store: Store, close(): Promise<void> }>): void {
  describe(`direct uploads that break, over ${name}`, () => {
    let opened: Awaited<ReturnType<typeof open>>
    before(async () => { opened = await open() })
    after(() => opened.close())
    const sites: Site[] = []
    afterEach(async () => { for (const site of sites.splice(0)) await site.close() })

    /** Two processes, and what both write. */
    async function start() {
      const written: Item[] = []
      const one = await Site.over(opened.store, written)
      const other = await Site.over(opened.store, written)
      sites.push(one, other)
      return { written, one, other }
    }

    test('another process tells how much is committed, and takes the rest; the report is that of the whole', async () => {
      const { written, one, other } = await start()
      await one.broken('rest', BODY, 1_900_000)
      const answer = await resume(other, 'rest')
      assert.equal(answer.status, 200)
      assertWhole(written, answer.json)
      for (const site of [one, other]) {
        const asked = await site.send('rest', '', { 'upload-offset': '0' })
        assert.deepEqual([asked.status, asked.body, asked.headers['idempotent-replayed']], [200, answer.body, 'true'])
      }
      assert.equal(written.length, COUNT - BAD)
    })

    test('a client that sends all bytes again gets the same report, and nothing is written twice', async () => {
      const { written, one, other } = await start()
      await one.broken('whole', BODY, 1_700_000)
      await one.broken('whole', BODY, 2_200_000)
      const answer = await sendWhole(other, 'whole')
      assert.equal(answer.status, 200)
      assertWhole(written, answer.json)
      const again = await one.send('whole', BODY)
      assert.deepEqual([again.body, again.headers['idempotent-replayed']], [answer.body, 'true'])
      assert.equal(written.length, COUNT - BAD)
    })

    test('20 random cuts, from process to process', async () => {
      const { written, one, other } = await start()
      for (let cut = 0; cut < 20; cut++) {
        const site = cut % 2 === 0 ? one : other
        const { bytes } = await site.committed('cuts')
        const rest = BODY.subarray(bytes)
        const header = bytes > 0 ? `Upload-Offset: ${bytes}\r\n` : ''
        await site.broken('cuts', rest, Math.floor(Math.random() * rest.byteLength), header)
      }
      const answer = await resume(one, 'cuts')
      assertWhole(written, answer.json)
      const again = await other.send('cuts', BODY)
      assert.equal(again.body, answer.body)
    })
  })
}

worksOver('memory', async () => {
  const { store } = memory()
  return { store, close: () => store.close() }
})
let redisServer: RedisServer
let postgresServer: PostgresServer
before(async () => {
  redisServer = await RedisServer.start([])
  postgresServer = await startPostgres()
})
after(async () => {
  await redisServer.stop()
  await postgresServer.stop()
})
worksOver('Redis', async () => {
  const client = new Redis(redisServer.url)
  const { store } = redis({ client })
  return {
    store,
    async close() {
      await store.close()
      client.disconnect()
    },
  }
})
worksOver('PostgreSQL', async () => {
  const pool = new pg.Pool({ connectionString: postgresServer.url })
  const { store } = postgres({ pool })
  return {
    store,
    async close() {
      await store.close()
      await pool.end()
    },
  }
})

describe('direct uploads that break: what is refused', () => {
  const { store } = memory()
  let written: Item[]
  let site: Site
  let waitFor: Promise<void> | undefined
  let noteWrite = (): void => undefined
  let failing = false
  after(() => store.close())
  afterEach(() => site.close())
  beforeEach(async () => {
    written = []
    const failable: Store = {
      shared: false, close: () => store.close(),
      get: (key) => store.get(key), watch: (...all) => store.watch(...all), create: (...all) => store.create(...all),
      delete: (...all) => store.delete(...all), increment: (...all) => store.increment(...all),
      replace: async (...all) => {
        if (failing && all[0].endsWith(':progress')) throw new StoreUnavailableError('The store is away')
        return store.replace(...all)
      },
    }
    site = await Site.over(failable, written, () => {
      noteWrite()
      return waitFor
    })
  })

  /** An upload of which a part is committed. */
  async function begun(key: string): Promise<{ lines: number, bytes: number }> {
    await site.broken(key, BODY, 1_900_000)
    while ((await site.committed(key)).bytes === 0);
    // This request waits until the one that broke has ended.
    const { json: { committed } } = await site.send(key, 'x', { 'upload-offset': '1' })
    return committed as { lines: number, bytes: number }
  }

  test('lines and bytes name the same place', async () => {
    const { lines: count, bytes } = await begun('place')
    assert.equal(BODY.subarray(0, bytes).filter((byte) => byte === 10).length, count)
    assert.equal(BODY[bytes - 1], 10)
  })

  test('a wrong offset is a 409 with the right one', async () => {
    await begun('offset')
    for (const wrong of [1, 2_000_000]) {
      const { status, json } = await site.send('offset', BODY.subarray(wrong), { 'upload-offset': String(wrong) })
      assert.deepEqual([status, json.code], [409, 'upload_incomplete'])
      assert.ok((json.committed?.bytes ?? 0) > 1)
    }
    const { status, json } = await site.send('offset', 'x', { 'upload-offset': '-1' })
    assert.deepEqual([status, json.code], [400, 'invalid_header'])
    assertWhole(written, (await resume(site, 'offset')).json)
  })

  test('another body is a 422, before and after the upload is complete', async () => {
    const { bytes } = await begun('other')
    const changed = Buffer.from(BODY)
    changed[20] = changed[20] === 65 ? 66 : 65
    const longer = Buffer.concat([BODY, Buffer.from('{"id":-1}\n')])
    const small = '{"id":1}\n'
    for (const body of [changed, small, BODY.subarray(0, bytes - 1)]) {
      const { status, json } = await site.send('other', body)
      assert.deepEqual([status, json.code], [422, 'idempotency_key_reused'])
    }
    assertWhole(written, (await resume(site, 'other')).json)
    for (const body of [changed, small, longer, BODY.subarray(0, BODY.byteLength - 1)]) {
      const { status, json } = await site.send('other', body)
      assert.deepEqual([status, json.code], [422, 'idempotency_key_reused'])
    }
    assert.equal(written.length, COUNT - BAD)
  })

  test('the rest is sent again if its answer was lost; another rest is a 422', async () => {
    const first = await begun('lost')
    const answer = await resume(site, 'lost')
    const headers = { 'upload-offset': String(first.bytes) }
    const [again, other, middle] = await Promise.all([
      site.send('lost', BODY.subarray(first.bytes), headers),
      site.send('lost', BODY.subarray(first.bytes + 1), headers),
      site.send('lost', BODY.subarray(7), { 'upload-offset': '7' }),
    ])
    assert.equal(answer.status, 200)
    assert.deepEqual([again.status, other.status, middle.status], [200, 422, 422])
    assert.equal(again.body, answer.body)
  })

  test('a small upload whose answer was lost is answered again, also after Upload-Offset: 0', async () => {
    const small = '{"id":1}\n'
    const answer = await site.send('small', small)
    const asked = await site.send('small', '', { 'upload-offset': '0' })
    const again = await site.send('small', small, { 'upload-offset': '0' })
    for (const { status, body, headers } of [asked, again]) {
      assert.deepEqual([status, body, headers['idempotent-replayed']], [200, answer.body, 'true'])
    }
    const other = await site.send('small', '{"id":2}\n', { 'upload-offset': '0' })
    assert.deepEqual([other.status, other.json.code], [422, 'idempotency_key_reused'])
    assert.deepEqual(written, [{ id: 1 }])
  })

  test('an upload that is unknown, or still runs, is answered with its position; one that failed with its error', async () => {
    assert.deepEqual(await site.committed('unknown'), { lines: 0, bytes: 0 })
    let fail = (): void => undefined
    waitFor = new Promise((_, reject) => { fail = () => { reject(httpError('conflict')) } })
    const writing = new Promise<void>((resolve) => { noteWrite = resolve })
    const running = site.send('failing', '{"id":1}\n')
    await writing
    assert.deepEqual(await site.committed('failing'), { lines: 0, bytes: 0 })
    fail()
    waitFor = undefined
    const failed = await running
    const asked = await site.send('failing', '', { 'upload-offset': '0' })
    assert.deepEqual([failed.status, failed.json.code], [409, 'conflict'])
    assert.deepEqual([asked.status, asked.body], [409, failed.body])
  })

  test('the rest of an upload is never taken for a whole one: it needs a key, and a direct answer', async () => {
    for (const headers of [{ prefer: 'respond-async' }, { 'idempotency-key': undefined }]) {
      const answer = await ask(site.port, 'POST', '/items', {
        headers: Object.fromEntries(Object.entries({
          'content-type': 'application/x-ndjson', 'idempotency-key': '"rest"', 'upload-offset': '9', ...headers,
        }).filter((entry): entry is [string, string] => entry[1] !== undefined)),
        body: '{"id":2}\n',
      })
      assert.deepEqual([answer.status, (JSON.parse(answer.body) as { code: string }).code], [400, 'invalid_header'])
    }
    assert.deepEqual(written, [])
  })

  test('a second client under the key waits, and gets the answer of the first', async () => {
    let go = (): void => undefined
    waitFor = new Promise((resolve) => { go = resolve })
    const first = site.send('two', BODY)
    const second = site.send('two', BODY)
    go()
    waitFor = undefined
    const answers = await Promise.all([first, second])
    assert.deepEqual(answers.map(({ status }) => status), [200, 200])
    assert.equal(answers[0].body, answers[1].body)
    assert.equal(answers.filter(({ headers }) => headers['idempotent-replayed'] === 'true').length, 1)
    assertWhole(written, answers[0].json)
  })

  test('two clients that send the rest at once: one writes it, and no line is written twice', async () => {
    const { bytes } = await begun('rests')
    const headers = { 'upload-offset': String(bytes) }
    const answers = await Promise.all([1, 2].map(() => site.send('rests', BODY.subarray(bytes), headers)))
    assert.deepEqual(answers.map(({ status }) => status), [200, 200])
    assertWhole(written, answers[0]?.json as UploadResult)
  })

  test('a key of another owner is another upload, and the rest of an unknown upload is refused', async () => {
    await begun('mine')
    const asked = await site.send('mine', '', { 'upload-offset': '0', 'x-owner': 'bob' })
    assert.deepEqual(asked.json.committed, { lines: 0, bytes: 0 })
    const rest = await site.send('gone', BODY.subarray(5000), { 'upload-offset': '5000' })
    assert.deepEqual([rest.status, rest.json.committed], [409, { lines: 0, bytes: 0 }])
  })

  test('the rest may have another coding; a batch that was not committed is written again', async () => {
    const { bytes } = await begun('coded')
    failing = true
    const rest = gzipSync(BODY.subarray(bytes))
    const headers = { 'upload-offset': String(bytes), 'content-encoding': 'gzip' }
    const failed = await site.send('coded', rest, headers)
    failing = false
    assert.equal(failed.status, 503)
    const answer = await site.send('coded', rest, headers)
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.json.summary, SUMMARY)
    assert.equal(new Set(written.map(({ id }) => id)).size, COUNT - BAD)
    assert.ok(written.length <= COUNT - BAD + 500, 'at most one batch is written twice')
  })

  test('one line for each record needs the background', async () => {
    const { status, json } = await site.send('lines', BODY, { accept: 'application/x-ndjson' })
    assert.deepEqual([status, json.code], [400, 'idempotency_needs_async'])
  })
})
