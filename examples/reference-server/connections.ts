import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'

/**
 * Knows what is under way on each connection, so that a server can stop without cutting an answer short. Make it
 * after the server's other listeners are in place.
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
    // Before the handler, which may answer at once.
    server.prependListener('request', this.#begin)
    server.prependListener('checkContinue', this.#begin)
  }

  /**
   * Takes no new connections, lets go of those with nothing under way, and of each other one once it has
   * its answer. What is still there after `timeoutMs` is cut. Resolves when none is left.
   */
  drain(timeoutMs: number): Promise<void> {
    this.#draining = true
    return new Promise((resolve) => {
      const timer = setTimeout(() => { this.#server.closeAllConnections() }, timeoutMs)
      // The close() of an HTTP server also destroys connections whose last answer is still on its way out.
      NetServer.prototype.close.call(this.#server, () => {
        clearTimeout(timer)
        resolve()
      })
      for (const [socket, answers] of this.#answers) {
        // Requests may have come in one go: the connection has to stay until the last of them.
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
