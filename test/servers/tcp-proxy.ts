import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** A connection in between that can be slow, or swallow everything without closing: what a bad network does. */
export class TcpProxy {
  latencyMs = 0
  /** Connections that were opened so far. */
  opened = 0
  private hole = false
  private holeOfReplies = false
  /** The address while nothing listens there. */
  private address: AddressInfo | undefined
  private readonly sockets = new Set<Socket>()
  private readonly forgotten = new WeakSet<Socket>()

  private constructor(private readonly server: Server, private target: number) {}

  static async to(port: number): Promise<TcpProxy> {
    // Half-open is allowed, so that a connection which was forgotten does not even answer its end.
    const server = createServer({ noDelay: true, allowHalfOpen: true })
    const proxy = new TcpProxy(server, port)
    server.on('connection', (near) => {
      const far = createConnection({ port: proxy.target, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
      proxy.opened++
      proxy.join(near, far, () => false)
      proxy.join(far, near, () => proxy.holeOfReplies)
    })
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    return proxy
  }

  get port(): number {
    return (this.address ?? this.server.address() as AddressInfo).port
  }

  /** From now on nothing arrives, on connections that are there and on new ones. */
  swallow(): void {
    this.hole = true
  }

  /** From now on the server receives everything, and nothing of what it replies arrives. */
  swallowReplies(): void {
    this.holeOfReplies = true
  }

  /**
   * Forgets the connections that are there, as a load balancer or NAT does that lost its state:
   * nothing arrives on them for ever, not even
   * their end. New ones work.
   */
  forget(): void {
    for (const socket of this.sockets) this.forgotten.add(socket)
  }

  /** Connects to another server from now on, and keeps the connections to this one. */
  leadTo(port: number): void {
    this.target = port
  }

  /** Connects to another server from now on, and ends the connections to this one: a fail-over. */
  moveTo(port: number): void {
    this.target = port
    for (const socket of this.sockets) socket.destroy()
  }

  /** What was swallowed is lost, so the connections that lost it end. */
  heal(): void {
    this.hole = false
    this.holeOfReplies = false
    for (const socket of this.sockets) socket.destroy()
  }

  /** Nothing listens any more: connections end, and new ones are refused. */
  refuse(): void {
    this.address = this.server.address() as AddressInfo
    this.close()
  }

  /** Listens again, on the same port. */
  async accept(): Promise<void> {
    const { address } = this
    this.address = undefined
    await new Promise<void>((resolve) => { this.server.listen(address, resolve) })
  }

  close(): void {
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private join(from: Socket, to: Socket, isLost: () => boolean): void {
    this.sockets.add(from)
    // While something is under way, what follows takes as long, so that nothing overtakes.
    let underWay = 0
    let delayMs = 0
    from.on('data', (data) => {
      if (this.hole || isLost() || this.forgotten.has(from)) return
      if (underWay === 0) delayMs = this.latencyMs / 2
      if (delayMs === 0) {
        to.write(data)
        return
      }
      underWay++
      setTimeout(() => {
        underWay--
        to.write(data)
      }, delayMs)
    })
    from.on('end', () => { if (!this.forgotten.has(from)) to.end() })
    from.on('error', () => undefined)
    from.on('close', () => {
      this.sockets.delete(from)
      if (!this.forgotten.has(from)) to.destroy()
    })
  }
}
