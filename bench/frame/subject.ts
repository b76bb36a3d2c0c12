// What every program under measurement does: say where it listens, and tell its CPU time when asked.
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens on a free port, tells the parent, and from then on answers its question for the CPU time used so far. */
export function subject(server: Server): void {
  server.listen(0, '127.0.0.1', () => {
    process.send?.({ port: (server.address() as AddressInfo).port })
  })
  process.on('message', (message) => {
    if (message !== 'cpu') return
    // Work that was accepted has its turn first: it belongs to the requests that brought it.
    setTimeout(() => {
      const { user, system } = process.cpuUsage()
      process.send?.({ cpu: user + system, user })
    }, 20)
  })
  process.on('disconnect', () => process.exit())
}

/** The same for a plain listener of node:http. */
export function listen(listener: RequestListener): void {
  subject(createServer(listener))
}
