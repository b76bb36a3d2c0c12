import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'

/** A server that listens. */
export interface Listening {
  readonly port: number
  /** Its origin, with `http:`. */
  readonly url: string
  /** Stops it, and cuts its connections. */
  close(): Promise<void>
}

/** Lets a server listen on a free port of this machine. `close` belongs to the test. */
export async function listen(server: Stoppable, host = '127.0.0.1'): Promise<Listening> {
  await once(server.listen(0, host), 'listening')
  return listening(server, host)
}

/** A server that listens already. */
export function listening(server: Stoppable, host = '127.0.0.1'): Listening {
  const { port } = server.address() as AddressInfo
  return {
    port, url: `http://${host}:${port}`,
    close: () => new Promise((resolve) => {
      server.close(() => { resolve() })
      server.closeAllConnections?.()
    }),
  }
}

type Stoppable = Server & { closeAllConnections?(): void }
