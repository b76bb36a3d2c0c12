import { PGlite } from '@electric-sql/pglite'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

const SSL_REQUEST = 80_877_103

/**
 * The PostgreSQL of pglite behind a socket. It has one session, so connections take turns: one has it from its first
 * message until it is idle outside of a transaction.
 */
export class PgliteServer {
  readonly #sockets = new Set<Socket>()
  #turn: Promise<void> = Promise.resolve()

  private constructor(private readonly db: PGlite, private readonly server: Server) {
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.on('close', () => this.#sockets.delete(socket))
      void this.#serve(socket)
    })
  }

  static async start(): Promise<PgliteServer> {
    const db = await PGlite.create()
    const server = new PgliteServer(db, createServer({ noDelay: true }))
    server.server.listen(0, '127.0.0.1')
    await once(server.server, 'listening')
    return server
  }

  get url(): string {
    const { port } = this.server.address() as AddressInfo
    return `postgres://postgres@127.0.0.1:${String(port)}/postgres`
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.server.close()
    await this.#turn
    await this.db.close()
  }

  async #serve(socket: Socket): Promise<void> {
    let release: (() => void) | undefined
    try {
      for await (const message of messages(socket)) {
        release ??= await this.#takeTurn()
        const answer = Buffer.from(await this.db.execProtocolRaw(message))
        socket.write(answer)
        // ReadyForQuery, and outside of a transaction.
        if (answer.length >= 6 && answer.subarray(-6).equals(Buffer.from([0x5a, 0, 0, 0, 5, 0x49]))) {
          release()
          release = undefined
        }
      }
    } catch {
      socket.destroy()
    } finally {
      // Who goes in the middle of a transaction leaves nothing of it.
      if (release) await this.db.query('ROLLBACK').catch(() => {})
      release?.()
    }
  }

  async #takeTurn(): Promise<() => void> {
    const before = this.#turn
    let release = (): void => {}
    this.#turn = new Promise((resolve) => { release = resolve })
    await before
    return release
  }
}

/** The messages of one client, whole; that it asks for TLS is answered here. */
async function* messages(socket: Socket): AsyncGenerator<Uint8Array, void, undefined> {
  let held = Buffer.alloc(0)
  let started = false
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    held = Buffer.concat([held, chunk])
    for (;;) {
      // The first message has no type.
      const front = started ? 1 : 0
      if (held.length < front + 4) break
      const length = front + held.readUInt32BE(front)
      if (held.length < length) break
      const message = held.subarray(0, length)
      held = held.subarray(length)
      if (!started && message.readUInt32BE(4) === SSL_REQUEST) socket.write('N')
      else {
        // Terminate
        if (started && message[0] === 0x58) return
        started = true
        yield new Uint8Array(message)
      }
    }
  }
}
