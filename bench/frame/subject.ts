// Shared by all measured programs: they report their port, and their CPU time on request.
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens on a free port, reports it to the parent, and then answers each question for the CPU time used so far. */
export function subject(server: Server): void {
  // The load generator keeps its connections while other servers have their turn.
  server.keepAliveTimeout = 600_000
  server.listen(0, '127.0.0.1', () => {
    process.send?.({ port: (server.address() as AddressInfo).port })
  })
  process.on('message', (message) => {
    if (message !== 'cpu') return
    // Accepted work runs first, because it belongs to the requests of this batch.
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
