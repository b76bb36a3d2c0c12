// A server of content on a free port, and clients that leave, crawl and come back.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { toNode } from '../../../adapters/node/index.js'
import type { Handler } from '../../../src/http/exchange.js'
import { open } from './wire.js'
import { listen } from '../../kit/listen.js'

export interface Site {
  readonly port: number
  /** What the binding's `onError` heard. */
  readonly noise: unknown[]
}

export async function serve(t: TestContext, handler: Handler, mountPath = ''): Promise<Site> {
  const noise: unknown[] = []
  const server = createServer(toNode(handler, { mountPath, onError: (error: unknown) => { noise.push(error) } }))
  const { port, close } = await listen(server)
  t.after(close)
  return { port, noise }
}

/** A folder that goes with the test. */
export async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'longhaul-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  return path
}

/** How many descriptors of this process are open on what lies below `path`. Linux tells; elsewhere it is none. */
export async function openBelow(path: string): Promise<number> {
  if (process.platform !== 'linux') return 0
  let count = 0
  for (const fd of await readdir('/proc/self/fd')) {
    const target = await readlink(`/proc/self/fd/${fd}`).catch(() => '')
    if (target.startsWith(path)) count++
  }
  return count
}

/** Descriptors that nobody closed, and that the garbage collector found. */
const forgotten: string[] = []
process.on('warning', ({ message }) => {
  if (message.includes('file descriptor') || message.includes('FileHandle')) forgotten.push(message)
})

/**
 * Waits until no descriptor on what lies below `path` is open, and makes sure that each was closed
 * by who opened it.
 */
export async function closed(path: string): Promise<void> {
  const late = Date.now() + 30_000
  while (await openBelow(path) > 0) {
    if (Date.now() > late) throw new Error(`${await openBelow(path)} descriptors stay open`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  if (forgotten.length > 0) throw new Error(forgotten.join('\n'))
}

export interface Piece {
  readonly status: number
  readonly headers: Awaited<ReturnType<typeof open>>['headers']
  readonly bytes: Buffer
  /** Whether all that was promised came. */
  readonly whole: boolean
}

/** Reads an answer, and hangs up once `limit` bytes of it have come. */
export async function piece(
  port: number,
  path: string,
  headers: Record<string, string> = {},
  limit = Infinity,
): Promise<Piece> {
  const response = await open(port, 'GET', path, { headers })
  const chunks: Buffer[] = []
  let length = 0
  let whole = false
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      const kept = chunk.subarray(0, limit - length)
      chunks.push(kept)
      length += kept.byteLength
      if (length >= limit) break
    }
    whole = response.complete && length < limit
  } catch {
    // The server cut the connection.
  }
  response.destroy()
  return { status: response.statusCode ?? 0, headers: response.headers, bytes: Buffer.concat(chunks), whole }
}

/** Sends a request target as it is, which clients would clean up, and gives the status. */
export async function rawStatus(port: number, target: string): Promise<number> {
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, 'latin1')
  let text = ''
  socket.on('data', (chunk) => { text += chunk.toString('latin1') })
  socket.on('error', () => undefined)
  await once(socket, 'close')
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
