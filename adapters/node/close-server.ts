import { Server as HttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import { Server as NetServer, type Socket } from 'node:net'
import { MAX_TIMER_MS } from '../../src/runtime/options.js'
import { setTimeout, clearTimeout } from '../../src/runtime/timers.js'
import { currentResponse } from './host.js'

type Close = (cutMs: number) => Promise<void>

/**
 * Watches a server from now on. Returns a function that accepts no new connections, closes idle
 * ones, and closes each other one after its response. After `cutMs` milliseconds it cuts what is
 * left. Resolves when no connection is left.
 */
export function serverCloser(server: object): Close {
  if (!(server instanceof NetServer)) {
    return async () => { await (server as { close?(): unknown }).close?.() }
  }
  const open = new Set<Closing>()
  const watch = (connection: Closing): void => {
    open.add(connection)
    connection.once('close', () => open.delete(connection))
  }
  const isHttp1 = server instanceof HttpServer || server instanceof HttpsServer
  server.on(isHttp1 ? server instanceof HttpsServer ? 'secureConnection' : 'connection' : 'session', watch)
  return (cutMs) => new Promise((resolve, reject) => {
    const cut = (): void => {
      for (const each of open) each.destroy()
      if (isHttp1) server.closeAllConnections()
    }
    const timer = setTimeout(cut, Math.min(cutMs, MAX_TIMER_MS)).unref()
    const closed = (error?: Error): void => {
      clearTimeout(timer)
      // A server that does not listen yet, or any more, is closed.
      if (error === undefined || (error as NodeJS.ErrnoException).code === 'ERR_SERVER_NOT_RUNNING') resolve()
      else reject(error)
    }
    if (!isHttp1) {
      server.close(closed)
      // Sends GOAWAY, and ends after the streams that are open.
      for (const session of open) (session as Closing & { close(): void }).close()
      return
    }
    // The close() of HTTP servers also destroys connections whose last response is still being sent.
    NetServer.prototype.close.call(server, closed)
    for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
      if (server.listenerCount(event) > 0) server.prependListener(event, closeAfter)
    }
    for (const socket of open) endWhenAsked(socket as Socket)
  })
}

/** A socket, or a session of HTTP/2. */
type Closing = Pick<Socket, 'destroy' | 'once'>

function closeAfter(_req: IncomingMessage, res: ServerResponse): void {
  res.shouldKeepAlive = false
}

/** Time in which a client that has just connected may send its first request. */
const FIRST_REQUEST_MS = 1000

/** Ends a connection. Its first request may be on its way, and was sent to an open server. */
function endWhenAsked(socket: Socket): void {
  if (socket.bytesWritten > 0 || currentResponse(socket) !== undefined) {
    endWhenFree(socket, true)
    return
  }
  const timer = setTimeout(() => { endWhenFree(socket, true) }, FIRST_REQUEST_MS)
  socket.once('close', () => { clearTimeout(timer) })
}

/** Ends a connection after the current response and those that wait behind it. */
function endWhenFree(socket: Socket, isFirst: boolean): void {
  const current = currentResponse(socket)
  if (current !== undefined) {
    if (!current.headersSent) current.shouldKeepAlive = false
    current.once('close', () => { endWhenFree(socket, false) })
  } else if (isFirst && socket.writableLength === 0) socket.destroy()
  else socket.end()
}
