import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { SmallProcess } from '../kit/small-process.js'
import { eventually } from '../../kit/wait.js'

const MIB = 1 << 20
const STREAMS = 200

interface State {
  readonly waiting: number
  readonly rss: number
  readonly maxRss: number
  readonly maxBuffers: number
  readonly path: string
}

/** A client that reads when it is told to, and counts. */
class Reader {
  readonly socket: Socket
  readonly closed: Promise<void>
  bytes = 0
  tail = ''

  constructor(port: number, path: string, headers: string) {
    this.socket = connect({ port, host: '127.0.0.1' })
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n`)
    this.closed = new Promise((resolve, reject) => { this.socket.on('end', resolve).on('error', reject) })
    this.closed.catch(() => undefined)
  }

  read(): void {
    this.socket.on('data', (chunk: Buffer) => {
      this.bytes += chunk.byteLength
      this.tail = (this.tail + chunk.toString('latin1', Math.max(0, chunk.byteLength - 200))).slice(-200)
    })
  }
}

/** Many clients wait for a result of 0.9 MB; a quarter of them reads nothing before the others have all of it. */
async function watch(t: TestContext, headers: string): Promise<readonly Reader[]> {
  const server = await SmallProcess.start('events-server.ts')
  t.after(() => server.stop())
  const { path } = await server.tell<State>('state')
  const readers: Reader[] = []
  for (let at = 0; at < STREAMS; at++) readers.push(new Reader(server.port, path, headers))
  t.after(() => { for (const { socket } of readers) socket.destroy() })
  const [slow, fast] = [readers.slice(0, STREAMS / 4), readers.slice(STREAMS / 4)]
  for (const reader of fast) reader.read()
  await eventually(async () => (await server.tell<State>('state')).waiting === STREAMS, 60_000, 'all wait')
  const before = await server.tell<State>('state')
  await server.tell('go')
  await Promise.all(fast.map(({ closed }) => closed))
  for (const reader of slow) reader.read()
  await Promise.all(slow.map(({ closed }) => closed))
  for (const { bytes } of readers) assert.ok(bytes > 900_000 && bytes < 920_000, `${String(bytes)} bytes`)
  assert.ok(server.alive)
  const { maxRss, maxBuffers } = await server.tell<State>('state')
  assert.ok(maxRss < before.rss + 100 * MIB, `${String(Math.round((maxRss - before.rss) / MIB))} MiB more`)
  assert.ok(maxBuffers < 40 * MIB, `${String(Math.round(maxBuffers / MIB))} MiB of buffers`)
  return readers
}

describe(`while ${String(STREAMS)} clients wait for a result of 0.9 MB of a process with a heap of 64 MiB`, () => {
  test('event streams share one buffer of each version, however slow their readers are', async (t) => {
    for (const { tail } of await watch(t, 'Accept: text/event-stream\r\n'))
      assert.match(tail, /x"\},"createdAt":[^\n]*\}\n\n\r\n0\r\n\r\n$/)
  })

  test('long polls share one buffer of each version', async (t) => {
    for (const { tail } of await watch(t, 'Prefer: wait=600\r\n')) assert.match(tail, /x"\},"createdAt":[^\n]*\}$/)
  })
})
