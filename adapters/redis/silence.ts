import timers from 'node:timers'

// Taken at once: Redis keeps real time, also under a test's fake timers, and one of those would be
// the last when they go.
const { setTimeout, clearTimeout, setImmediate } = timers

/** What is used here of an ioredis client, or of a node of a Cluster. */
export interface Connection {
  readonly status?: string
  readonly stream?: { readonly bytesRead?: number } | null
  ping(): Promise<unknown>
  duplicate(...options: never[]): Connection
  disconnect(reconnect?: boolean): void
  on(event: string, listener: (...args: string[]) => void): unknown
}

/** A client with one connection, or a Cluster with one for each node. */
export type Connected = Connection | { nodes(): Connection[] }

/** A connection that was made only to ask whether the server answers. */
const PROBE = {
  lazyConnect: false, enableOfflineQueue: true, enableReadyCheck: true, retryStrategy: null, disconnectTimeout: 100,
} as never

/**
 * Finds connections that are half-open: the server answers others, and this one has heard nothing
 * for a deadline. A load balancer or NAT that lost its state leaves such connections, and no socket
 * ever tells. Each is disconnected, so that its client connects again and sends what was not
 * answered once more.
 *
 * A server that is slow, stopped or away answers a new connection no better: then nothing is
 * replaced.
 */
export class Silence {
  private checking: Promise<boolean> | undefined
  private probe: Connection | undefined
  private closed = false

  constructor(private readonly clientOf: () => Connected | undefined | Promise<Connected | undefined>, private readonly timeoutMs: number) {}

  /**
   * Call when an answer is late. Resolves to `true` if a connection was replaced. Never rejects.
   * One check at a time.
   */
  check(): Promise<boolean> {
    this.checking ??= this.replaceSilent().catch(() => false).finally(() => { this.checking = undefined })
    return this.checking
  }

  /** Lets go of a probe under way. */
  close(): void {
    this.closed = true
    this.probe?.disconnect()
  }

  private async replaceSilent(): Promise<boolean> {
    const client = await this.clientOf()
    if (client === undefined) return false
    const connections = 'nodes' in client && typeof client.nodes === 'function' ? client.nodes() : [client as Connection]
    let replaced = false
    for (const connection of connections) if (await this.isSilent(connection)) {
      connection.disconnect(true)
      replaced = true
    }
    return replaced
  }

  private async isSilent(connection: Connection): Promise<boolean> {
    const { stream } = connection
    const heard = stream?.bytesRead
    // One that is not connected is being connected by its client.
    const isSame = (): boolean => (
      !this.closed && (connection.status === 'ready' || connection.status === 'connect')
      && connection.stream === stream && connection.stream?.bytesRead === heard
    )
    if (!isSame() || await this.answers(connection) || !isSame()) return false
    return await this.answersOthers(connection) && isSame()
  }

  private async answersOthers(connection: Connection): Promise<boolean> {
    const probe = this.probe = connection.duplicate(PROBE)
    // Without a listener the client writes each failed connect to the console.
    probe.on('error', () => undefined)
    try {
      return await this.answers(probe)
    } finally {
      this.probe = undefined
      probe.disconnect()
    }
  }

  private answers(connection: Connection): Promise<boolean> {
    return new Promise((resolve) => {
      // After what has come in meanwhile was read: a process that was busy itself must not blame
      // Redis.
      const timer = setTimeout(() => { setImmediate(() => { resolve(false) }) }, this.timeoutMs)
      timer.unref()
      connection.ping().then(() => {
        clearTimeout(timer)
        resolve(true)
      }, () => {
        clearTimeout(timer)
        resolve(false)
      })
    })
  }
}
