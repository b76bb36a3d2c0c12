import { within } from '../../src/runtime/timers.js'
import { Breaker, observed, type Fault, type StoreEvent } from '../../src/stores/calls.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import { runScript, type RedisClient, type Script } from './client.js'
import { Watches } from './watches.js'

/** The calls of one store or engine to Redis. */
export class Connection {
  readonly watches: Watches
  readonly silence: Silence
  private readonly breaker: Breaker
  private leftAt = -Infinity

  /** @param base - first key of each script, and start of all others */
  constructor(readonly client: RedisClient, readonly timeoutMs: number, readonly base: string) {
    this.watches = new Watches(client)
    this.silence = new Silence(timeoutMs)
    this.silence.clients.add(client)
    this.breaker = new Breaker({
      server: 'Redis', timeoutMs, onLate: () => { this.silence.check() },
      faultOf: (error) => {
        this.leaveReplica(error)
        return faultOf(error)
      },
      // A client of ioredis waits for a connection, and does not tell a call why there is none.
      causeOfLate: () => this.watches.lastError,
    })
  }

  call<Reply, T>(
    verb: StoreEvent['verb'], work: () => Promise<Reply>, read: (reply: Reply) => T,
  ): Promise<T> {
    return observed(verb, () => this.breaker.call(work, read))
  }

  run<Reply, T>(
    verb: StoreEvent['verb'], script: Script, args: readonly (string | number)[],
    read: (reply: Reply) => T,
  ): Promise<T> {
    return this.call(verb, () => this.send<Reply>(script, args), read)
  }

  /**
   * Sends a script without a time limit. Its second key never exists. While the slot of the keys moves in a
   * Cluster, Redis rejects each script of several keys of which one is absent (`TRYAGAIN`), before the
   * script runs. So no script sees only a part of its keys, or writes on the node that has the other part.
   */
  send<Reply>(script: Script, args: readonly (string | number)[]): Promise<Reply> {
    const { client, base } = this
    return runScript(client, script, 2, base, `${base}${NEVER}`, ...args) as Promise<Reply>
  }

  /** Calls `listener` for each notice of a channel. Resolves once notices arrive. */
  async watch(channel: string, listener: () => void): Promise<Unsubscribe> {
    const { active, remove } = this.watches.add(channel, listener)
    try {
      await this.call('watch', () => active, () => undefined)
    } catch (error) {
      remove()
      throw error
    }
    return remove
  }

  /**
   * If a replica has reported the error, closes the connections. After a fail-over the address
   * leads to the primary, so that new connections may find it. A Cluster follows the redirections
   * of the server instead.
   */
  leaveReplica(error: unknown): void {
    const now = performance.now()
    if (!(error instanceof Error && OF_REPLICA.test(error.message)) || now - this.leftAt < LEAVE_MS) return
    this.leftAt = now
    this.watches.reconnect()
    for (const client of this.silence.clients) {
      const { status, options } = client
      // Otherwise the client would not connect again, or does so already.
      if (status === 'ready' && typeof options?.retryStrategy === 'function') client.disconnect(true)
    }
  }

  /** Ends checks, and the connection for notices once nothing is watched. */
  release(): void {
    this.silence.close()
    this.watches.release()
  }
}

/** End of the name of a key that never exists. */
export const NEVER = 'never'

function faultOf(error: unknown): Fault {
  const hasReplied = error instanceof Error && error.name === 'ReplyError'
  const isFull = hasReplied && error.message.includes('OOM ')
  return { hasReplied, reason: isFull ? 'full' : 'unavailable' }
}

/** Errors of a replica, within those of scripts too: read-only, cut off from its primary, or being filled. */
const OF_REPLICA = /\b(?:READONLY|MASTERDOWN|LOADING) /
/** Minimum time between two such reconnects, in milliseconds: the application may use the client too. */
const LEAVE_MS = 1000

/** Options of a connection that only tests whether the server replies. */
const PROBE = {
  lazyConnect: false, enableOfflineQueue: true, enableReadyCheck: true, retryStrategy: null,
  disconnectTimeout: 100,
} as never

export type Checked = Pick<
  RedisClient, 'nodes' | 'status' | 'options' | 'stream' | 'ping' | 'duplicate' | 'disconnect'
>

/**
 * Disconnects half-open connections, which a load balancer or NAT that lost its state leaves: the server
 * replies to a new connection, and the old one has received nothing for a time limit. Its client then
 * reconnects, and resends commands without a reply.
 */
export class Silence {
  readonly clients = new Set<Checked>()
  private isChecking = false
  private isClosed = false

  constructor(private readonly timeoutMs: number) {}

  /** Checks the connections, because a reply is late. */
  check(): void {
    if (this.isChecking) return
    this.isChecking = true
    const connections = [...this.clients].flatMap((client) => client.nodes?.() ?? client)
    void Promise.allSettled(connections.map((each) => this.replaceSilent(each)))
      .then(() => { this.isChecking = false })
  }

  close(): void {
    this.isClosed = true
  }

  private async replaceSilent(connection: Checked): Promise<void> {
    const { stream } = connection
    const heard = stream?.bytesRead
    // Its client connects one that is not connected.
    const isSame = (): boolean => (
      !this.isClosed && (connection.status === 'ready' || connection.status === 'connect')
      && connection.stream === stream && connection.stream?.bytesRead === heard
    )
    if (!isSame() || await this.replies(connection)) return
    const probe = connection.duplicate(PROBE)
    // Without a listener the client writes each failed connect to the console.
    probe.on('error', () => undefined)
    const isServing = await this.replies(probe)
    probe.disconnect()
    if (isServing && isSame()) connection.disconnect(true)
  }

  private replies(connection: Checked): Promise<boolean> {
    return within(connection.ping(), this.timeoutMs, () => new Error('late'))
      .then(() => true, () => false)
  }
}
