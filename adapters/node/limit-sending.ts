import type { Server } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { timer } from '../../src/runtime/options.js'

export type NodeServer = Server | HttpsServer

const CHECKS = 4

export const SEND_TIMEOUT = timer({ min: CHECKS })

interface Progress {
  taken: string
  checks: number
}

/**
 * Disconnects clients that have stopped reading: data waits and nothing was sent for `ms`
 * milliseconds (up to a quarter longer). Includes responses of your framework. An idle event stream
 * is not affected. Systems buffer some MiB for a slow client, so choose a minute or more.
 * Connections that exist already are not watched.
 * @example
 * const stop = limitSending(server, 120_000)
 * @returns a function that ends the limit
 * @throws {TypeError} `ms` is not valid.
 */
export function limitSending(server: NodeServer, ms: number): () => void {
  if (!SEND_TIMEOUT.accepts(ms)) {
    throw new TypeError(`limitSending: the time must be ${SEND_TIMEOUT.expects}, such as 120_000`)
  }
  const connections = new Map<Socket, Progress>()
  const add = (socket: Socket): void => {
    connections.set(socket, { taken: '', checks: 0 })
    socket.once('close', () => connections.delete(socket))
  }
  const check = (): void => {
    for (const [socket, progress] of connections) {
      const taken = takenBy(socket)
      if (taken === undefined || taken !== progress.taken) {
        progress.taken = taken ?? ''
        progress.checks = 0
      } else if (++progress.checks >= CHECKS) {
        connections.delete(socket)
        socket.destroy()
      }
    }
  }
  const interval = setInterval(check, ms / CHECKS).unref()
  // Under TLS the plain connections never have anything to send, so both kinds are watched.
  server.on('connection', add)
  server.on('secureConnection', add)
  return () => {
    clearInterval(interval)
    connections.clear()
    server.off('connection', add)
    server.off('secureConnection', add)
  }
}

/** Returns a string that changes when the system takes a byte; `undefined` if nothing waits. */
function takenBy(socket: Socket): string | undefined {
  const waiting = socket.writableLength
  if (waiting === 0) return undefined
  // Of one large write only the handle knows how much is left. Node's socket timeout reads it, too.
  const { _handle: handle } = socket as Socket & {
    readonly _handle?: { readonly writeQueueSize?: number } | null
  }
  return `${socket.bytesWritten - waiting} ${handle?.writeQueueSize ?? 0}`
}
