// The handlers in a Worker: workerd is the runtime of Cloudflare Workers. It runs one isolate here,
// so what is in memory stays.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { build } from 'esbuild'

const workerd: string = createRequire(import.meta.url)('workerd').default

const CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "worker", esModule = embed "worker.mjs")],
    compatibilityDate = "2026-08-04"
  ))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]
);`

describe('a Worker (15.23)', () => {
  let base = ''
  let folder = ''
  let child: ChildProcess
  const ask = (path: string, init: RequestInit = {}): Promise<Response> => fetch(base + path, init)
  const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    ask(path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    })
  const read = async (answer: Promise<Response>) => JSON.parse(await (await answer).text())

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-workerd-'))
    await build({
      entryPoints: [join(import.meta.dirname, 'worker.ts')],
      outfile: join(folder, 'worker.mjs'),
      bundle: true,
      format: 'esm',
      platform: 'neutral',
      mainFields: ['module', 'main'],
      conditions: ['workerd', 'worker'],
      external: ['node:*'],
      logLevel: 'error',
      footer: { js: 'export default worker' },
    })
    await writeFile(join(folder, 'config.capnp'), CONFIG)
    child = spawn(workerd, ['serve', 'config.capnp', '--control-fd=3'], {
      cwd: folder,
      stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
    })
    const exited = once(child, 'exit').then(([code]) => { throw new Error(`workerd ended with ${code}`) })
    exited.catch(() => undefined)
    const [line] = await Promise.race([once(createInterface(child.stdio[3] as Readable), 'line'), exited])
    base = `http://127.0.0.1:${JSON.parse(line as string).port}`
  })

  after(async () => {
    child.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })

  test('runs a task in waitUntil after its 202, which is polled, waited for and watched', async () => {
    const accepted = await post('/double', { amount: 4 }, { prefer: 'respond-async' })
    assert.equal(accepted.status, 202)
    const path = accepted.headers.get('location') ?? ''
    assert.equal((await read(ask(path))).status, 'processing')
    const watched = ask(path, { headers: { accept: 'text/event-stream' } }).then((answer) => answer.text())
    const waited = await read(ask(path, { headers: { prefer: 'wait=20' } }))
    assert.deepEqual([waited.status, waited.result.amount], ['completed', 8])
    assert.match(await watched, /"amount":8/)
    assert.equal((await read(ask(path))).status, 'completed')
  })

  test('responds to concurrent requests, synchronously or after a wait', async () => {
    const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((amount) =>
      read(post('/double', { amount }, amount % 2 ? {} : { prefer: 'respond-async, wait=20' }))))
    assert.deepEqual(answers.map(({ amount }) => amount), [2, 4, 6, 8, 10, 12])
  })

  test('cancels a running task', async () => {
    const path = (await post('/double', { amount: 4 }, { prefer: 'respond-async' })).headers.get('location') ?? ''
    assert.ok((await ask(path, { method: 'DELETE' })).ok)
    assert.equal((await read(ask(path))).status, 'cancelled')
  })

  test('runs a task once for one key', async () => {
    const headers = { prefer: 'respond-async', 'idempotency-key': 'a-key' }
    const [first, second] = [
      await post('/double', { amount: 1 }, headers),
      await post('/double', { amount: 1 }, headers),
    ]
    assert.deepEqual([first.status, second.status], [202, 202])
    assert.equal(second.headers.get('location'), first.headers.get('location'))
  })

  test('validates bulk items by a Standard Schema, and by a JSON Schema compiled at module load', async () => {
    const users = await read(post('/users', [{ name: 'ann' }, { name: 1 }]))
    assert.deepEqual(users.summary, { total: 2, succeeded: 1, failed: 1 })
    const { items } = await read(post('/checked', [{ name: 'bob', age: 4 }, { name: 1, age: 'x' }]))
    // Node compiles a second function when it is needed, to list both.
    assert.deepEqual(items[1].error.details, [{ pointer: '/1/name', message: 'must be string' }])
  })

  test('reads NDJSON, and sends it through a compiled serialiser', async () => {
    const upload = await read(post('/lines', '{"name":"cid"}\nnonsense\n', { 'content-type': 'application/x-ndjson' }))
    assert.deepEqual(upload.summary, { total: 2, succeeded: 1, failed: 1 })
    const download = await ask('/lines', { headers: { accept: 'application/x-ndjson', 'accept-encoding': 'gzip' } })
    assert.equal(download.headers.get('content-encoding'), 'gzip')
    assert.match(await download.text(), /\{"name":"cid"\}\n/)
  })

  test('serves a range of content in memory', async () => {
    await ask('/put')
    const part = await ask('/blob', { headers: { range: 'bytes=2-4' } })
    assert.deepEqual([part.status, await part.text()], [206, '234'])
  })

  test('checks credentials and counts rates', async () => {
    assert.equal((await ask('/mine')).status, 401)
    const headers = { authorization: 'Bearer only-for-trying' }
    const statuses = []
    for (let tries = 0; tries < 3; tries++) statuses.push((await ask('/mine', { headers })).status)
    assert.deepEqual(statuses, [204, 204, 429])
  })

  test('selects properties by a schema of a download that is compiled too late', async () => {
    const download = await ask('/late-lines', { headers: { accept: 'application/x-ndjson' } })
    assert.equal(await download.text(), '{"name":"dan"}\n')
  })

  test('says what to do about a JSON Schema that is compiled too late', async () => {
    assert.deepEqual(await read(ask('/errors')), [])
    assert.equal((await ask('/late')).status, 500)
    const [error] = await read(ask('/errors'))
    assert.match(
      error,
      /^TypeError: jsonSchema: this runtime forbids code generation here\. .*while its module is loaded/,
    )
  })
})
