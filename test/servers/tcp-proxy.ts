import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** A connection in between that can be slow, or swallow everything without closing: what a bad network does. */
export class TcpProxy {
  latencyMs = 0
  private hole = false
  private readonly sockets = new Set<Socket>()

  private constructor(private readonly server: Server) {}

  static async to(port: number): Promise<TcpProxy> {
    const server = createServer({ noDelay: true })
    const proxy = new TcpProxy(server)
    server.on('connection', (near) => {
      const far = createConnection({ port, host: '127.0.0.1', noDelay: true })
      proxy.join(near, far)
      proxy.join(far, near)
    })
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    return proxy
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }

  /** From now on nothing arrives, on connections that are there and on new ones. */
  swallow(): void {
    this.hole = true
  }

  /** What was swallowed is lost, so the connections that lost it end. */
  heal(): void {
    this.hole = false
    for (const socket of this.sockets) socket.destroy()
  }

  close(): void {
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private join(from: Socket, to: Socket): void {
    this.sockets.add(from)
    from.on('data', (data) => {
      if (this.hole) return
      if (this.latencyMs === 0) to.write(data)
      else setTimeout(() => { to.write(data) }, this.latencyMs / 2)
    })
    from.on('error', () => undefined)
    from.on('close', () => {
      this.sockets.delete(from)
      to.destroy()
    })
  }
}
