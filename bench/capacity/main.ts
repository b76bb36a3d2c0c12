// npm run bench:capacity [-- --quick]: the memory of one process for each task, watcher and upload.
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { Program } from '../frame/program.js'
import { table } from '../frame/table.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const [TASKS, CONNECTIONS] = quick ? [2000, 500] : [20_000, 5000]
/** What an upload has sent when it is measured, and the length that it announces. */
const [SENT, LENGTH] = [65_536, 1_073_741_824]

interface Held { readonly heap: number; readonly rss: number }

const program = await buildPrograms('capacity', { server: 'bench/capacity/server.ts' })
const folder = await mkdtemp(join(tmpdir(), 'longhaul-capacity-'))
const rows: string[][] = []

await measure('a task that waits in memory()', TASKS, ({ server }) => server.ask({ submit: 'waiting', count: TASKS }))
await measure('a task that runs and awaits something', TASKS, ({ server }) => server.ask({ submit: 'running', count: TASKS }))
await measure('a finished task with a small result in memory()', TASKS, ({ server }) => server.ask({ submit: 'finished', count: TASKS }))
await measure('a connection without a request', CONNECTIONS, ({ open }) => open(() => 'HEAD /films HTTP/1.1\r\nHost: a\r\n\r\n', true))
await measure('an event stream of a task', CONNECTIONS, ({ open, path }) => (
  open(() => `GET ${path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n`, true)
))
await measure('a long poll', CONNECTIONS, ({ open, path, etag }) => (
  open(() => `GET ${path} HTTP/1.1\r\nHost: a\r\nPrefer: wait=600\r\nIf-None-Match: ${etag}\r\n\r\n`, false)
))
await measure('a resumable upload to a folder', CONNECTIONS, ({ open }) => open((n) => (
  `POST /films HTTP/1.1\r\nHost: a\r\nX-Owner: ${n}\r\nUpload-Complete: ?1\r\nContent-Length: ${LENGTH}\r\n\r\n${'x'.repeat(SENT)}`
), false))

await rm(folder, { recursive: true })
process.stdout.write(`Memory of one process of Node ${process.versions.node} for each of ${TASKS.toLocaleString('en')} tasks or \
${CONNECTIONS.toLocaleString('en')} connections, in KiB. "heap" is V8's heap with its external memory after a collection, "process" is \
what the system counts (resident set).

${table(['what', 'heap', 'process'], rows)}
`)

interface Place {
  readonly server: Program
  /** Path and entity tag of a task that runs. */
  readonly path: string
  readonly etag: string
  /** Opens connections that send a request, and waits for the beginning of a response to each if there is one. */
  readonly open: (request: (n: number) => string, hasResponse: boolean) => Promise<void>
}

async function measure(what: string, count: number, make: (place: Place) => Promise<unknown>): Promise<void> {
  const [server, { port }] = await Program.start<{ port: number }>(program('server'), 'any', { node: ['--expose-gc'], args: [folder] })
  const sockets: Socket[] = []
  const { taskId } = await server.ask<{ taskId: string }>('watched')
  const path = `/tasks/${taskId}`
  const response = await fetch(`http://127.0.0.1:${port}${path}`)
  if (response.status !== 200) throw new Error(`the task has the status ${response.status}`)
  const etag = response.headers.get('etag') ?? ''
  await response.arrayBuffer()
  const before = await server.ask<Held>('held')
  const open = async (request: (n: number) => string, hasResponse: boolean): Promise<void> => {
    for (let at = 0; at < count; at += 100) {
      await Promise.all(Array.from({ length: Math.min(100, count - at) }, (_, n) => new Promise<void>((resolve, reject) => {
        const socket = connect(port, '127.0.0.1', () => {
          socket.write(request(at + n), () => { if (!hasResponse) resolve() })
        })
        socket.on('error', reject).on('data', (data: Buffer) => {
          const status = data.toString('latin1', 9, 12)
          if (hasResponse ? status === '404' : data.length > 0) reject(new Error(`${what}: ${status}`))
          else resolve()
        })
        sockets.push(socket)
      })))
    }
    // One more has asked for the task.
    await server.ask({ requests: count + 1 })
  }
  await make({ server, path, etag, open })
  const after = await server.ask<Held>('held')
  const each = (of: keyof Held): string => ((after[of] - before[of]) / count / 1024).toFixed(1)
  rows.push([what, each('heap'), each('rss')])
  for (const socket of sockets) socket.destroy()
  await server.stop()
}
