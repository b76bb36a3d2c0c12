import assert from 'node:assert/strict'
import { get, request, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** Work that takes less than twice this time may delay another request until it has ended, in milliseconds. */
const SHORT_MS = 3000

/** A whole answer. */
export interface Result { readonly status: number; readonly body: string }

async function textOf(response: IncomingMessage): Promise<Result> {
  let body = ''
  for await (const chunk of response) body += String(chunk)
  return { status: response.statusCode ?? 0, body }
}

/** Uploads pieces to `/upload` or `path`, as fast as they are taken. */
export function upload(
  port: number,
  pieces: Iterable<Uint8Array>,
  { path = '/upload', ...headers }: Record<string, string> = {},
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const req = request({
      port,
      host: '127.0.0.1',
      method: 'POST',
      path,
      headers: { 'content-type': 'application/x-ndjson', ...headers },
      agent: false,
    })
    let answered = false
    req.on('response', (response) => {
      answered = true
      textOf(response).then(resolve, reject)
    })
    req.on('error', (error) => {
      if (!answered) reject(error)
    })
    const all = pieces[Symbol.iterator]()
    const send = (): void => {
      for (;;) {
        if (answered || req.destroyed) return
        const { done, value } = all.next()
        if (done === true) {
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

/** The same piece until there are so many bytes. */
export function* repeat(piece: Uint8Array, bytes: number): Generator<Uint8Array> {
  for (let sent = 0; sent < bytes; sent += piece.byteLength) yield piece
}

/** Returns the result of work. Sends small requests all the time: none of them may wait for half of the work. */
export async function whilePinging<T>(port: number, work: Promise<T>): Promise<T> {
  const start = performance.now()
  let over = false
  const done = work.finally(() => { over = true })
  let slowest = 0
  const pings = (async () => {
    while (!over) {
      const began = performance.now()
      const { status } = await new Promise<Result>((resolve, reject) => {
        get({ port, host: '127.0.0.1', path: '/ping', agent: false }, (response) => {
          textOf(response).then(resolve, reject)
        }).on('error', reject)
      })
      assert.equal(status, 200)
      slowest = Math.max(slowest, performance.now() - began)
      await sleep(20)
    }
  })()
  const [result] = await Promise.all([done, pings])
  const workMs = performance.now() - start
  assert.ok(slowest < Math.max(SHORT_MS, workMs / 2), `another request waited for ${slowest} ms of ${workMs} ms`)
  return result
}
