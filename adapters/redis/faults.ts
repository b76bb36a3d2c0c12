import { setTimeout, clearTimeout, setImmediate } from '../../src/runtime/timers.js'
import { Breaker, type Fault } from '../../src/stores/calls.js'
import type { RedisClient } from './client.js'

export type Connection = Pick<
  RedisClient, 'status' | 'stream' | 'ping' | 'duplicate' | 'disconnect' | 'on'
>

export type Connected = Connection | { nodes(): Connection[] }

/** Options of a connection that only tests whether the server answers. */
const PROBE = {
  lazyConnect: false, enableOfflineQueue: true, enableReadyCheck: true, retryStrategy: null,
  disconnectTimeout: 100,
} as never

/**
 * Finds half-open connections: the server answers others, and this one has received nothing for a
 * deadline. A load balancer or NAT that lost its state leaves such connections, and the socket
 * reports no error. Each is disconnected, so that its client reconnects and resends commands
 * without a reply.
 *
 * If the server is slow, stopped or unreachable, a new connection gets no reply either, and nothing
 * is replaced.
 */
export class Silence {
  private checking: Promise<boolean> | undefined
  private probe: Connection | undefined
  private closed = false

  constructor(
    private readonly clientOf: () => Connected | undefined | Promise<Connected | undefined>,
    private readonly timeoutMs: number,
  ) {}

  /**
   * Checks the connections, when a reply is late. Resolves to `true` if one was replaced. Never
   * rejects. Runs one check at a time.
   */
  check(): Promise<boolean> {
    this.checking ??= this.replaceSilent().catch(() => false)
      .finally(() => { this.checking = undefined })
    return this.checking
  }

  close(): void {
    this.closed = true
    this.probe?.disconnect()
  }

  private async replaceSilent(): Promise<boolean> {
    const client = await this.clientOf()
    if (client === undefined) return false
    const isCluster = 'nodes' in client && typeof client.nodes === 'function'
    const connections = isCluster ? client.nodes() : [client as Connection]
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

/** Returns a breaker for the calls to one Redis. `onLate` is called after calls have timed out. */
export function redisBreaker(timeoutMs: number, onLate?: () => void): Breaker {
  return new Breaker({ server: 'Redis', timeoutMs, faultOf, ...onLate && { onLate } })
}

function faultOf(error: unknown): Fault {
  const answered = error instanceof Error && error.name === 'ReplyError'
  const isFull = answered && error.message.includes('OOM ')
  return { answered, reason: isFull ? 'full' : 'unavailable' }
}
