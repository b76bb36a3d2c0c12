import assert from 'node:assert/strict'
import { connect } from 'node:net'

/** One answer as it was on the wire. */
export interface RawAnswer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
  /** Whether all of it came. */
  readonly whole: boolean
}

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [^\r\n]*$/
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\t\x20-\x7e\x80-\xff]*)$/

/**
 * Cuts what came on a connection into answers, strictly: anything that does not belong there
 * throws. `heads`: which of them answer HEAD.
 */
export function answersIn(text: string, isHead: (index: number) => boolean = () => false): RawAnswer[] {
  const found: RawAnswer[] = []
  for (let at = 0; at < text.length;) {
    const end = text.indexOf('\r\n\r\n', at)
    if (end === -1) {
      assert.ok(
        text.startsWith('HTTP/1.1 '.slice(0, text.length - at), at),
        `not an answer: ${JSON.stringify(text.slice(at, at + 80))}`,
      )
      break
    }
    const [line = '', ...fields] = text.slice(at, end).split('\r\n')
    const status = Number(STATUS_LINE.exec(line)?.[1] ?? assert.fail(`not a status line: ${JSON.stringify(line)}`))
    const headers = new Map(fields.map((field) => {
      const [, name = '', value = ''] = FIELD.exec(field) ?? assert.fail(`not a field: ${JSON.stringify(field)}`)
      return [name.toLowerCase(), value] as const
    }))
    at = end + 4
    if (status < 200) continue
    const length = isHead(found.length) || status === 204 || status === 304 ? '0' : headers.get('content-length')
    const read =
      length === undefined && headers.get('transfer-encoding') === 'chunked'
        ? chunked(text, at)
        : plain(text, at, Number(length ?? Infinity))
    found.push({ status, headers, ...read })
    at = read.end
  }
  return found
}

function plain(text: string, at: number, length: number): { body: string, end: number, whole: boolean } {
  const end = Math.min(text.length, at + length)
  return { body: text.slice(at, end), end, whole: length === Infinity || end === at + length }
}

function chunked(text: string, from: number): { body: string, end: number, whole: boolean } {
  let body = ''
  for (let at = from; ;) {
    const line = text.indexOf('\r\n', at)
    if (line === -1) return { body, end: text.length, whole: false }
    const size = Number.parseInt(text.slice(at, line), 16)
    assert.ok(/^[0-9a-f]+$/i.test(text.slice(at, line)), `not a chunk: ${JSON.stringify(text.slice(at, at + 40))}`)
    const next = line + 2 + size + 2
    if (next > text.length) return { body: body + text.slice(line + 2), end: text.length, whole: false }
    if (size === 0) return { body, end: next, whole: true }
    body += text.slice(line + 2, line + 2 + size)
    at = next
  }
}

/** How a connection is used. */
export interface Sending {
  /** The bytes, one write each. */
  readonly writes: readonly (Buffer | string)[]
  /** Stop listening once this is true of what has come. Default: when the server closes. */
  readonly enough?: (text: string) => boolean
  /** Half-close behind the last write. */
  readonly end?: boolean
  /** Milliseconds after which the client goes. */
  readonly patience: number
}

/** Writes on a connection of its own and gives what came back, as latin1, and whether the server closed. */
export function send(
  port: number,
  { writes, enough = () => false, end = false, patience }: Sending,
): Promise<{ readonly text: string; readonly closed: boolean }> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    let text = ''
    const done = (closed: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ text, closed })
    }
    const timer = setTimeout(() => {
      done(false)
    }, patience)
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (enough(text)) done(false)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      done(true)
    })
    socket.on('connect', () => {
      const left = [...writes]
      const next = (): void => {
        const piece = left.shift()
        if (piece === undefined) {
          if (end) socket.end()
          return
        }
        socket.write(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece, () => {
          setImmediate(next)
        })
      }
      next()
    })
  })
}
