import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { isPending, type MaybePromise } from '../../src/runtime/maybe-promise.js'
import { plainRequest } from '../../src/http/request.js'
import type { HttpRequest, HttpResponse, RequestHeaders } from '../../src/http/exchange.js'
import { isFieldValue } from '../../src/http/fields/reader.js'

/** Maximum time for the client to read the answer and to close, in milliseconds. */
const LEAVE_MS = 1000

const answered = new WeakSet<Duplex>()

/**
 * Answers on a bare connection, where Node has no response object to offer, and ends the
 * connection. Does so once for each connection, and never on one that has gone. A streamed body is
 * left out.
 */
export function answerRaw(socket: Duplex, answer: MaybePromise<HttpResponse | undefined>): void {
  if (answered.has(socket)) return
  answered.add(socket)
  // Nobody else listens from here on, and a reset that nobody hears would end the process.
  socket.on('error', ignore)
  if (isPending(answer)) void answer.then((late) => { write(socket, late) })
  else write(socket, answer)
}

function write(socket: Duplex, answer: HttpResponse = { status: 501, headers: {} }): void {
  if (socket.destroyed || !socket.writable) {
    socket.destroy()
    return
  }
  socket.end(wireText(answer))
  const timer = setTimeout(() => socket.destroy(), LEAVE_MS).unref()
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
}

function wireText(answer: HttpResponse): string {
  const text = typeof answer.body === 'string' ? answer.body : ''
  return headText({ ...answer, headers: { connection: 'close', ...answer.headers, 'content-length': String(Buffer.byteLength(text)) } }) + text
}

/** The head of an answer as it is on the wire, to the empty line. */
export function headText(
  { status, headers }: HttpResponse, reason = STATUS_CODES[status] ?? 'Error',
): string {
  const lines = [`HTTP/1.1 ${status} ${reason}`, `date: ${new Date().toUTCString()}`]
  for (const [name, value] of Object.entries(headers)) {
    for (const line of Array.isArray(value) ? value : [value]) {
      // Nobody else checks here what Node checks elsewhere.
      if (!isFieldValue(line)) {
        throw new TypeError(`The field ${name} has a value that cannot be sent`)
      }
      lines.push(`${name}: ${line}`)
    }
  }
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** The little that is known of a request which never became one. */
export function bareRequest(
  headers: RequestHeaders, method = '', path = '', peerAddress?: string, raw?: unknown,
): HttpRequest {
  return plainRequest({
    method, path, mountPath: '', params: {}, query: new URLSearchParams(), headers,
    body: { parsed: undefined, bytes: async () => new Uint8Array(0), stream: nothing },
    signal: AbortSignal.abort(), context: undefined, peerAddress, raw,
  })
}

async function * nothing(): AsyncGenerator<Uint8Array> {}

function ignore(): void {}
