import type { Server } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'

/** A server of node:http or node:https. */
export type NodeServer = Server | HttpsServer

/** Number of checks of each connection within one time limit. */
const LOOKS = 4

/** Bytes that a connection has taken, and the number of checks since the last change. */
interface Progress {
  taken: string
  looks: number
}

/**
 * Cuts connections whose clients have stopped reading. If data waits and nothing was sent for `ms`
 * milliseconds (up to a quarter longer), the socket is destroyed and the source of a streamed
 * answer is closed. It covers every answer of the server, also those of the host. An answer that
 * waits for its handler, or an idle event stream, is not affected. Systems buffer some MiB for a
 * slow client and accept more in large steps, so choose a minute or more. It covers connections
 * that are made from now on.
 *
 * @example
 * const stop = limitSending(server, 120_000)
 *
 * @returns a function that stops it
 * @throws {TypeError} `ms` is not valid.
 */
export function limitSending(server: NodeServer, ms: number): () => void {
  if (!(Number.isSafeInteger(ms) && ms >= LOOKS && ms < 2 ** 31)) {
    throw new TypeError('limitSending: the time must be whole milliseconds, such as 120_000')
  }
  const connections = new Map<Socket, Progress>()
  const add = (socket: Socket): void => {
    connections.set(socket, { taken: '', looks: 0 })
    socket.once('close', () => connections.delete(socket))
  }
  const look = (): void => {
    for (const [socket, progress] of connections) {
      const taken = takenBy(socket)
      if (taken === undefined || taken !== progress.taken) {
        progress.taken = taken ?? ''
        progress.looks = 0
      } else if (++progress.looks >= LOOKS) {
        connections.delete(socket)
        socket.destroy()
      }
    }
  }
  const timer = setInterval(look, ms / LOOKS).unref()
  // Under TLS the plain connections never have anything to send; both are watched, so both kinds of
  // server are.
  server.on('connection', add)
  server.on('secureConnection', add)
  return () => {
    clearInterval(timer)
    connections.clear()
    server.off('connection', add)
    server.off('secureConnection', add)
  }
}

/**
 * Something that changes as soon as the system takes a byte; `undefined` while nothing waits. More
 * that waits is no change.
 */
function takenBy(socket: Socket): string | undefined {
  const waiting = socket.writableLength
  if (waiting === 0) return undefined
  // Of one large write only the handle knows how much is left, as Node's own socket timeout does.
  const { _handle: handle } = socket as Socket & { readonly _handle?: { readonly writeQueueSize?: number } | null }
  return `${socket.bytesWritten - waiting} ${handle?.writeQueueSize ?? 0}`
}
