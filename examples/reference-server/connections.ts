import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'

/**
 * Tracks the requests of each connection, so that a server can stop without truncating a response. Create it
 * after the other listeners of the server.
 */
export class Connections {
  readonly #server: Server
  readonly #answers = new Map<Socket, Set<ServerResponse>>()
  #draining = false

  constructor(server: Server) {
    this.#server = server
    server.on('connection', (socket) => {
      this.#answers.set(socket, new Set())
      socket.once('close', () => this.#answers.delete(socket))
    })
    // Registered before the handler, which may answer at once.
    server.prependListener('request', this.#begin)
    server.prependListener('checkContinue', this.#begin)
  }

  /**
   * Accepts no new connections, closes idle ones, and closes each other one after
   * its response. After `timeoutMs`, destroys the rest. Resolves when none is left.
   */
  drain(timeoutMs: number): Promise<void> {
    this.#draining = true
    return new Promise((resolve) => {
      const timer = setTimeout(() => { this.#server.closeAllConnections() }, timeoutMs)
      // The close() of an HTTP server also destroys connections whose last answer is still being sent.
      NetServer.prototype.close.call(this.#server, () => {
        clearTimeout(timer)
        resolve()
      })
      for (const [socket, answers] of this.#answers) {
        // With pipelined requests, the connection must stay open until the last one.
        const last = [...answers].at(-1)
        if (last) this.#isLast(last)
        else socket.destroy()
      }
    })
  }

  readonly #begin = (req: IncomingMessage, res: ServerResponse): void => {
    const { socket } = req
    const answers = this.#answers.get(socket)
    answers?.add(res)
    if (this.#draining) this.#isLast(res)
    res.once('close', () => {
      answers?.delete(res)
      if (this.#draining && answers?.size === 0) socket.end()
    })
  }

  #isLast(res: ServerResponse): void {
    if (!res.headersSent) res.setHeader('connection', 'close')
  }
}
