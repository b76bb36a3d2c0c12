import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { ended } from '../../unit/kit/tasks.js'
import { members, site, type Site } from '../../http/kit/tasks.js'
import { coreOf } from '../../../src/tasks/tasks.js'
import { deferred, eventually, within } from '../../kit/wait.js'

interface Vanishing {
  readonly site: Site
  readonly open: () => Promise<Socket>
  readonly gate: ReturnType<typeof deferred<void>>
  readonly signals: AbortSignal[]
}

async function vanishing(t: TestContext, options: Parameters<typeof site>[3] = {}): Promise<Vanishing> {
  const gate = deferred()
  const signals: AbortSignal[] = []
  const work = defineTask({
    name: 'work',
    run: async (_, { signal }) => {
      signals.push(signal)
      await gate.promise
      return { message: 'done' }
    },
  })
  const made = await site(t, 'node', work, options)
  const open = async () => {
    const socket = connect(made.port, '127.0.0.1')
    socket.on('error', () => undefined)
    await new Promise((resolve) => { socket.once('connect', resolve) })
    return socket
  }
  return { site: made, open, gate, signals }
}

const post = (headers = '', length = 2) =>
  `POST /api/work HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${String(length)}\r\n${headers}\r\n`
const connections = ({ server }: Site) =>
  new Promise<number>((resolve, reject) => {
    server?.getConnections((error, count) => {
      if (error) reject(error)
      else resolve(count)
    })
  })

async function assertQuiet({ site: { tasks, engine, noise, heard }, site: made }: Vanishing): Promise<void> {
  await eventually(async () => await connections(made) === 0)
  await eventually(() => coreOf(tasks).waiters.size === 0 && engine.usage().watches === 0)
  assert.deepEqual([noise, heard], [[], []])
}

for (const [when, sent] of [
  ['before the body', post()],
  ['in the middle of the body', `${post('Prefer: respond-async\r\n', 100)}{"a":`],
] as const) {
  test(`a client that disconnects ${when} starts nothing, and causes no error report`, async (t) => {
    const made = await vanishing(t)
    for (let n = 0; n < 20; n++) {
      const socket = await made.open()
      socket.write(sent)
      await eventually(async () => (await connections(made.site)) > 0)
      if (n % 2) socket.destroy()
      else socket.resetAndDestroy()
    }
    await assertQuiet(made)
    assert.deepEqual([made.site.spy.writes, made.signals], [[], []])
  })
}

test('a client that disconnects during its synchronous request aborts the run, and nothing is kept', async (t) => {
  const made = await vanishing(t)
  const socket = await made.open()
  socket.write(`${post()}{}`)
  await eventually(() => made.signals.length === 1)
  socket.destroy()
  await eventually(() => made.signals[0]?.aborted === true)
  assert.equal(made.site.engine.usage().tasks, 0)
  await assertQuiet(made)
})

test('a request with an Idempotency-Key outlives its client: cut connections and retries are one run', async (t) => {
  const made = await vanishing(t)
  for (let n = 0; n < 3; n++) {
    const socket = await made.open()
    socket.write(`${post('Idempotency-Key: k\r\n')}{}`)
    await eventually(() => made.signals.length === 1 && coreOf(made.site.tasks).waiters.size === 1)
    if (n % 2) socket.destroy()
    else socket.resetAndDestroy()
    await assertQuiet(made)
  }
  made.gate.resolve()
  const again = await made.site.call('POST', '/api/work', { body: {}, headers: { 'idempotency-key': 'k' } })
  assert.deepEqual(
    [again.status, again.headers.get('idempotent-replayed'), await members(again)],
    [200, 'true', { message: 'done' }],
  )
  assert.deepEqual(made.signals.map(({ aborted }) => aborted), [false])
})

test('a client that disconnects while its synchronous request is queued cancels and deletes its task', async (t) => {
  const made = await vanishing(t, { direct: 'task' })
  const socket = await made.open()
  socket.write(`${post()}{}`)
  await eventually(() => made.signals.length === 1)
  socket.destroy()
  await eventually(() => made.signals[0]?.aborted === true)
  await eventually(() => made.site.engine.usage().tasks === 0)
  await assertQuiet(made)
})

test('a client that disconnects after its task was accepted does not stop the task', async (t) => {
  for (const prefer of ['respond-async', 'respond-async, wait=20']) {
    const made = await vanishing(t)
    const { tasks, engine } = made.site
    const socket = await made.open()
    socket.write(`${post(`Prefer: ${prefer}\r\n`)}{}`)
    await eventually(() => made.signals.length === 1)
    if (prefer.includes('wait'))
      await eventually(() => coreOf(tasks).waiters.size === 1 && engine.usage().watches === 1)
    socket.resetAndDestroy()
    await eventually(async () => await connections(made.site) === 0)
    await assertQuiet(made)
    assert.equal(made.signals[0]?.aborted, false)
    const id = made.site.spy.calls.find((call) => call.startsWith('create '))?.slice('create '.length) ?? ''
    made.gate.resolve()
    assert.deepEqual((await ended(tasks, id)).result, { message: 'done' })
  }
})

for (const [what, headers] of [
  ['a long poll', 'Prefer: wait=20\r\n'],
  ['an event stream', 'Accept: text/event-stream\r\n'],
] as const) {
  test(`clients that leave ${what} release their places, one by one and all at once`, async (t) => {
    const made = await vanishing(t, { maxWaiters: 50, maxWaitersPerOwner: 50 })
    const { start, tasks, engine } = made.site
    const { taskId } = await members(await start())
    await eventually(() => made.signals.length === 1)
    for (let round = 0; round < 3; round++) {
      const sockets = await Promise.all(Array.from({ length: 50 }, made.open))
      for (const socket of sockets)
        socket.write(`GET /api/status/${String(taskId)} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`)
      await eventually(() => coreOf(tasks).waiters.size === 50 && engine.usage().watches === 1)
      for (const [n, socket] of sockets.entries()) {
        if (n % 2) socket.destroy()
        else socket.resetAndDestroy()
      }
      await eventually(() => coreOf(tasks).waiters.size === 0 && engine.usage().watches === 0)
    }
    assert.deepEqual([made.site.noise, made.site.heard], [[], []])
    made.gate.resolve()
    assert.equal((await ended(tasks, String(taskId))).status, 'completed')
  })
}

test('many polls over one connection leave no listeners behind', async (t) => {
  const made = await vanishing(t, { endpoints: { maxWaitSeconds: 0.01 } })
  const { taskId } = await members(await made.site.start())
  const warnings: Error[] = []
  const warned = (warning: Error) => { warnings.push(warning) }
  process.on('warning', warned)
  t.after(() => { process.off('warning', warned) })
  const socket = await made.open()
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => { text += chunk })
  for (let n = 1; n <= 30; n++) {
    socket.write(`GET /api/status/${String(taskId)} HTTP/1.1\r\nHost: x\r\nPrefer: wait=1\r\n\r\n`)
    await eventually(() => text.split('HTTP/1.1 200').length === n + 1)
  }
  await new Promise(setImmediate)
  assert.deepEqual(warnings, [])
  assert.equal(coreOf(made.site.tasks).waiters.size, 0)
  socket.destroy()
  made.gate.resolve()
})

test('a client that does not read its response holds only its connection', async (t) => {
  const made = await vanishing(t)
  const { start, tasks, engine } = made.site
  made.gate.resolve()
  const { taskId } = await members(await start())
  await ended(tasks, String(taskId))
  const socket = await made.open()
  socket.pause()
  for (let n = 0; n < 20; n++)
    socket.write(`GET /api/status/${String(taskId)} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n`)
  await within(eventually(() => coreOf(tasks).waiters.size === 0 && engine.usage().watches === 0))
  socket.resetAndDestroy()
  await eventually(() => coreOf(tasks).waiters.size === 0)
  assert.deepEqual(made.site.noise, [])
})
