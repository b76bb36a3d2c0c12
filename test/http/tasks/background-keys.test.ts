// Requests with one Idempotency-Key at once, whose bulk or NDJSON body is read in the background.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { ndjsonUpload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { withFaults } from '../../../conformance/engine/faults.js'
import { deferred, eventually } from '../../kit/wait.js'
import { listen } from '../../kit/listen.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'

const KINDS = ['bulk', 'ndjson'] as const
type Kind = typeof KINDS[number]
const TYPES = { bulk: 'application/json', ndjson: 'application/x-ndjson' }
const databases = [
  { name: 'memory', url: undefined },
  { name: 'Redis', url: await redisUrl() },
  { name: 'PostgreSQL', url: await postgresUrl() },
]

interface Told { readonly status: number, readonly taskId?: string, readonly code?: string, readonly replayed: boolean }

let sites = 0

/** Web processes on one database, which also work once `go` is called. `written` has the marks of all records. */
async function setUp(t: TestContext, url: string | undefined) {
  const gate = deferred()
  const written: unknown[] = []
  const name = `keys_${String(process.pid)}_${String(++sites)}`
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-keys-'))
  const write = async (records: readonly { mark?: unknown }[]): Promise<void> => {
    await gate.promise
    written.push(...records.map(({ mark }) => mark))
  }
  const open = async () => {
    const { parts, close } = openDatabase(url, { name, folder })
    let beforeCreate = (): Promise<void> | undefined => undefined
    const engine = withFaults(parts.engine, (call) => (call === 'create' ? beforeCreate() : undefined))
    const background = { blobs: parts.blobs }
    const bulk = bulkCreate<object, object>({
      repository: { createMany: async (drafts) => { await write(drafts); return [...drafts] } },
      background: { name: 'bulk', ...background },
    })
    const ndjson = ndjsonUpload({ write, background: { name: 'ndjson', ...background } })
    const tasks = createTasks({ ...parts, engine, definitions: [bulk.task, ndjson.task], onError: () => undefined })
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const server = createServer(
      toNode(router({ 'POST /bulk': bulk.handler(endpoints), 'POST /ndjson': ndjson.handler(endpoints) })),
    )
    const listening = await listen(server)
    t.after(async () => {
      gate.resolve()
      await listening.close()
      await tasks.close({ drainMs: 1000 })
      await close()
    })
    return { ...listening, tasks, beforeCreate: (wait: () => Promise<void>) => { beforeCreate = wait } }
  }
  const all = url === undefined ? [await open()] : [await open(), await open()]
  t.after(() => { rmSync(folder, { recursive: true, force: true }) })
  const [first] = all as [Awaited<ReturnType<typeof open>>]
  let turn = 0
  const send = async (
    kind: Kind,
    body: ReadableStream | Uint8Array | string,
    headers: Record<string, string> = {},
  ): Promise<Told> => {
    const site = all[turn++ % all.length] ?? first
    const response = await fetch(`${site.url}/${kind}`, {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { 'content-type': TYPES[kind], 'prefer': 'respond-async', 'idempotency-key': '"one"', ...headers },
    })
    const text = await response.text()
    const { taskId, code } = (text === '' ? {} : JSON.parse(text)) as Told
    return {
      status: response.status,
      replayed: response.headers.has('idempotent-replayed'),
      ...(taskId !== undefined && { taskId }),
      ...(code !== undefined && { code }),
    }
  }
  return { first, send, written, go: () => { gate.resolve() } }
}

function bodyOf(kind: Kind, mark: string, size = 0): string {
  const records = Array.from({ length: 3 }, () => JSON.stringify({ mark, more: 'x'.repeat(size) }))
  return kind === 'bulk' ? `[${records.join(',')}]` : `${records.join('\n')}\n`
}

/** The text in two pieces, without a Content-Length, the second one later. */
function slowly(text: string): ReadableStream {
  return new ReadableStream({
    async start(controller) {
      controller.enqueue(Buffer.from(text.slice(0, 10)))
      await new Promise((resolve) => { setTimeout(resolve, 50) })
      controller.enqueue(Buffer.from(text.slice(10)))
      controller.close()
    },
  })
}

const times = <T>(count: number, ask: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => ask(n)))

for (const { name, url } of databases) {
  for (const kind of KINDS) {
    describe(`${kind} in the background on ${name}`, () => {
      const forms: Record<string, () => [ReadableStream | Uint8Array | string, Record<string, string>?]> = {
        'small bodies': () => [bodyOf(kind, 'a')],
        'bodies of 300 KB': () => [bodyOf(kind, 'a', 100_000)],
        'slow bodies of unknown length': () => [slowly(bodyOf(kind, 'a'))],
        'coded bodies': () => [gzipSync(bodyOf(kind, 'a')), { 'content-encoding': 'gzip' }],
      }
      for (const [form, make] of Object.entries(forms)) {
        test(`gets the 202 of one task for 20 equal requests with one key: ${form}`, async (t) => {
          const { send, written, first, go } = await setUp(t, url)
          const told = await times(20, () => send(kind, ...make()))
          assert.deepEqual(told.map(({ status }) => status), Array<number>(20).fill(202))
          const ids = [...new Set(told.map(({ taskId }) => taskId))]
          assert.equal(ids.length, 1)
          assert.equal(told.filter(({ replayed }) => !replayed).length, 1)
          go()
          const end = await first.tasks.wait(ids[0] ?? '', { timeoutMs: 30_000 })
          assert.equal(end?.status, 'completed')
          assert.deepEqual(written, ['a', 'a', 'a'])
        })
      }

      test('is accepted for one body and for equal bodies, and other bodies get a 422', async (t) => {
        const { send } = await setUp(t, url)
        const marks = ['a', 'b', 'c']
        const told = await times(15, (n) => send(kind, bodyOf(kind, marks[n % 3] ?? '')))
        const accepted = told.flatMap(({ status }, n) => (status === 202 ? [n % 3] : []))
        assert.equal(accepted.length, 5)
        assert.equal(new Set(accepted).size, 1)
        assert.deepEqual(
          told.filter(({ status }) => status !== 202).map(({ status, code }) => `${String(status)} ${String(code)}`),
          Array(10).fill('422 idempotency_key_reused'),
        )
      })

      test('leaves its key free if its body breaks off', async (t) => {
        const { send, first } = await setUp(t, url)
        const socket = createConnection(first.port, '127.0.0.1')
        const body = bodyOf(kind, 'a')
        socket.write(
          [
            `POST /${kind} HTTP/1.1`,
            'Host: a',
            `Content-Type: ${TYPES[kind]}`,
            'Prefer: respond-async',
            'Idempotency-Key: "one"',
            `Content-Length: ${String(body.length)}`,
            '',
            body.slice(0, 20),
          ].join('\r\n'),
        )
        await new Promise<void>((resolve) => { socket.on('connect', () => { setTimeout(resolve, 50) }) })
        socket.destroy()
        const { status, replayed } = await send(kind, body)
        assert.deepEqual([status, replayed], [202, false])
      })

      test('writes the records once, beside synchronous requests with the same key', async (t) => {
        const { send, written, first, go } = await setUp(t, url)
        go()
        const told = await times(20, (n) => send(kind, bodyOf(kind, 'a'), n % 2 === 0 ? {} : { prefer: 'wait=5' }))
        for (const { status, code } of told)
          assert.ok(status < 300 || status === 422 || status === 409, `${String(status)} ${String(code)}`)
        for (const taskId of new Set(told.flatMap((each) => each.taskId ?? [])))
          await first.tasks.wait(taskId, { timeoutMs: 30_000 })
        assert.deepEqual(written, ['a', 'a', 'a'])
      })

      /** The task of a request for the background that is created after a synchronous request has claimed its key. */
      const lateTask = async ({
        send,
        first,
        go,
      }: Pick<Awaited<ReturnType<typeof setUp>>, 'send' | 'first' | 'go'>): Promise<string> => {
        const gate = deferred()
        let isCreating = false
        first.beforeCreate(() => {
          isCreating = true
          return gate.promise
        })
        const late = fetch(`${first.url}/${kind}`, {
          method: 'POST',
          body: bodyOf(kind, 'a'),
          headers: { 'content-type': TYPES[kind], 'prefer': 'respond-async', 'idempotency-key': '"one"' },
        })
        await eventually(() => isCreating, 10_000, 'the task is being created')
        const direct = send(kind, bodyOf(kind, 'a'), { prefer: '' })
        go()
        assert.ok((await direct).status < 300)
        gate.resolve()
        const response = await late
        assert.equal(response.status, 202)
        return ((await response.json()) as { taskId: string }).taskId
      }

      test('writes nothing if a synchronous request has claimed its key before', async (t) => {
        const site = await setUp(t, url)
        const end = await site.first.tasks.wait(await lateTask(site), { timeoutMs: 30_000 })
        assert.equal(end?.status === 'failed' && end.error.code, 'idempotency_key_reused')
        assert.deepEqual(site.written, ['a', 'a', 'a'])
      })

      test('writes nothing in a retry if its key has the response of a synchronous request', async (t) => {
        const site = await setUp(t, url)
        const { tasks } = site.first
        const id = await lateTask(site)
        await tasks.wait(id, { timeoutMs: 30_000 })
        await tasks.retry(id)
        const end = await tasks.wait(id, { timeoutMs: 30_000 })
        assert.equal(end?.status === 'failed' && end.error.code, 'idempotency_key_reused')
        assert.deepEqual(site.written, ['a', 'a', 'a'])
      })

      test('runs, while a synchronous request with its key and another body gets a 422', async (t) => {
        const { send, written, first, go } = await setUp(t, url)
        const { taskId = '' } = await send(kind, bodyOf(kind, 'a'))
        const other = await send(kind, bodyOf(kind, 'b'), { prefer: '' })
        assert.equal(other.code, 'idempotency_key_reused')
        const again = await send(kind, bodyOf(kind, 'a'))
        assert.deepEqual([again.status, again.taskId], [202, taskId])
        go()
        const end = await first.tasks.wait(taskId, { timeoutMs: 30_000 })
        assert.equal(end?.status, 'completed')
        assert.deepEqual(written, ['a', 'a', 'a'])
      })
    })
  }
}
