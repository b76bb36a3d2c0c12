// npm run bench:hostile [-- --quick]: how long hostile uploads, a large bulk, a large upload and watchers delay the event loop of a server.
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { usersText } from '../bulk/users.js'
import { buildPrograms } from '../frame/build.js'
import { PINNED, Program, SERVER_CORE } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { bytesOf } from './data.js'

interface Case {
  readonly pieces: () => Iterable<Uint8Array>
  readonly path?: string
  readonly headers?: Record<string, string>
  readonly status: number
  /** Continues after the response, which has this status path. */
  readonly then?: (port: number, location: string) => Promise<void>
}
interface Told { readonly max: number; readonly high: number; readonly stretch: number; readonly cpu: number }

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const starts = quick ? 1 : 5
const MIB = 1 << 20
const bomb = gzipSync(Buffer.alloc(32 * MIB, '{"a":1}\n'), { level: 9 })
const deep = '['.repeat(1_000_000)
const nested = Buffer.from(`${deep}\n{"a":${deep}\n${'{"a":'.repeat(1_000_000)}1${'}'.repeat(1_000_000)}\n`)

function* longLine(): Generator<Uint8Array> {
  yield Buffer.from('{"long":"')
  const piece = Buffer.alloc(65_536, 0x61)
  for (let sent = 0; sent < 200_000_000; sent += piece.byteLength) yield piece
  yield Buffer.from('"}\n')
}

const JSON_TYPE = { 'content-type': 'application/json' }
const users = Buffer.from(usersText(100_000))
const piece = Buffer.alloc(65_536, 0x61)
const WATCHERS = 1000

/** Polls until a task has ended. */
async function ended(port: number, location: string): Promise<void> {
  for (;;) {
    const { status } = await (await fetch(`http://127.0.0.1:${port}${location}`)).json() as { status: string }
    if (status === 'completed') return
    await new Promise((resolve) => { setTimeout(resolve, 100) })
  }
}

/** Opens watchers of a task, which has ten changes a second for ten seconds, and waits for its end. */
async function watch(port: number, path: string): Promise<void> {
  await Promise.all(Array.from({ length: WATCHERS }, async () => {
    const req = request({ port, host: '127.0.0.1', path, headers: { accept: 'text/event-stream' }, agent: false }).end()
    const [response] = await once(req, 'response') as [IncomingMessage]
    if (response.statusCode !== 200) throw new Error(`a watcher got ${response.statusCode}`)
    await once(response.resume(), 'end')
  }))
}

const CASES: Readonly<Record<string, Case>> = {
  'nothing': { pieces: () => [], status: 200 },
  '200,000 good records': { pieces: () => cut(bytesOf('small')), status: 200 },
  'gzip of 1 MB that is 1 GB': { pieces: () => Array.from({ length: 32 }, () => bomb), headers: { 'content-encoding': 'gzip' }, status: 413 },
  'a line of 200 MB': { pieces: longLine, status: 200 },
  '1,000,000 lines of one character': { pieces: () => cut(Buffer.from('x\n'.repeat(1_000_000))), status: 200 },
  '1,000,000 lines that JSON.parse throws at': { pieces: () => cut(Buffer.from('{"}\n'.repeat(1_000_000))), status: 200 },
  'a bulk of 100,000 items': { path: '/users', pieces: () => cut(users), headers: JSON_TYPE, status: 201 },
  'the same as a task': { path: '/users', pieces: () => cut(users), headers: { ...JSON_TYPE, prefer: 'respond-async' }, status: 202, then: ended },
  'a resumable upload of 1 GiB': { path: '/files', pieces: () => Array.from({ length: 16_384 }, () => piece), headers: { 'upload-complete': '?1' }, status: 204 },
  '1,000 watchers, 10 changes a second': {
    path: '/ticking', pieces: () => [Buffer.from('{}')], headers: { ...JSON_TYPE, prefer: 'respond-async' }, status: 202, then: watch,
  },
  'JSON nested 1,000,000 deep, lines up to 6 MB': { pieces: () => cut(nested), status: 200 },
}

function* cut(bytes: Buffer): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536)
}

/** Sends the whole body, as fast as the server reads it, until there is an answer. */
function upload(port: number, { pieces, headers, path = '/lines' }: Case): Promise<{ status: number, location: string }> {
  return new Promise((resolve, reject) => {
    const req = request({ port, host: '127.0.0.1', path, method: 'POST', headers: { 'content-type': 'application/x-ndjson', ...headers }, agent: false })
    let status = 0
    let location = ''
    req.on('response', (response) => {
      status = response.statusCode ?? 0
      location = response.headers.location ?? ''
      response.resume().on('end', () => { resolve({ status, location }) }).on('error', () => { resolve({ status, location }) })
    })
    req.on('error', (error) => { if (status === 0) reject(error) })
    const all = pieces()[Symbol.iterator]()
    const send = (): void => {
      for (;;) {
        const { done, value } = all.next()
        if (done === true || status !== 0) {
          req.end()
          return
        }
        if (!req.write(value)) {
          req.once('drain', send)
          return
        }
      }
    }
    send()
  })
}

const program = await buildPrograms('hostile', { hostile: 'bench/ndjson/hostile-program.ts' })
const told = new Map(Object.keys(CASES).map((name) => [name, [] as Told[]]))
for (let start = 0; start < starts; start++) {
  process.stderr.write(`start ${start + 1} of ${starts}\n`)
  const [server, { port }] = await Program.start<{ port: number }>(program('hostile'), SERVER_CORE)
  // The first run is not measured, because V8 compiles code during it.
  await upload(port, CASES['200,000 good records'] as Case)
  for (const [name, each] of Object.entries(CASES)) {
    await server.ask('begin')
    const { status, location } = await upload(port, each)
    // The control is measured for a while too.
    if (name === 'nothing') await new Promise((resolve) => setTimeout(resolve, 2000))
    if (status !== each.status) throw new Error(`${name}: ${status}`)
    await each.then?.(port, location)
    const result = await server.ask<Told>('end')
    told.get(name)?.push(result)
  }
  await server.stop()
}
const ms = (values: readonly number[]): string => {
  const { median, low, high } = spread(values)
  return `${median.toFixed(0)} (${low.toFixed(0)}–${high.toFixed(0)})`
}
console.log(`Delay of the event loop during one upload, or other work, in ms (perf_hooks, resolution 1 ms): the longest, and the 99th percentile; then the most CPU
between two turns of the loop, which leaves out what other programs on the machine take, and the CPU of the whole upload. Median of ${starts} starts (quartiles). Node ${process.version}, ${PINNED ? 'the server has a core of its own' : 'not pinned'}.

${table(['', 'longest', '99 %', 'CPU of a turn', 'CPU'], [...told].map(([name, all]) => [
  name, ...(['max', 'high', 'stretch', 'cpu'] as const).map((what) => ms(all.map((each) => each[what]))),
]))}`)
