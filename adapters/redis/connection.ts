import { within } from '../../src/runtime/timers.js'
import { Breaker, observed, type Fault, type StoreEvent } from '../../src/stores/calls.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import { OWN, runScript, type RedisClient, type Script } from './client.js'
import { Watches } from './watches.js'

/** Clients whose server has a version that is new enough. */
const CHECKED = new WeakSet<RedisClient>()

/** The calls of one store or engine to Redis. */
export class Connection {
  readonly watches: Watches
  private readonly breaker: Breaker
  /** `true` once the version of the server was checked. */
  private isChecked: boolean
  private leftAt = -Infinity
  /** Connections that are being checked. */
  private readonly checking = new Set<RedisClient>()

  /** @param base - first key of each script, and start of all others */
  constructor(readonly client: RedisClient, readonly timeoutMs: number, readonly base: string) {
    this.isChecked = !client.info || CHECKED.has(client)
    this.watches = new Watches(client, (connection) => { void this.replaceSilent(connection) })
    this.breaker = new Breaker({
      server: 'Redis', timeoutMs, onLate: () => {
        for (const each of client.nodes?.() ?? [client]) void this.replaceSilent(each)
      },
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
    const send = this.isChecked ? work : () => this.checkVersion().then(work)
    return observed(verb, () => this.breaker.call(send, read))
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
    const { client } = this
    // Otherwise the client would not connect again, or does so already.
    if (client.status === 'ready' && typeof client.options?.retryStrategy === 'function') client.disconnect(true)
  }

  /** @throws {TypeError} The server is too old. */
  private async checkVersion(): Promise<void> {
    // A user may lack the right to this command.
    const info = await this.client.info?.('server').catch(() => '') ?? ''
    const [, version = '', major] = /^redis_version:((\d+)\.\S+)/m.exec(info) ?? []
    if (Number(major) < 6) {
      throw new TypeError(`redis: the server has the version ${version}, and must have 6.0 or later`)
    }
    CHECKED.add(this.client)
    this.isChecked = true
  }

  /**
   * Disconnects a half-open connection, which a load balancer or NAT that lost its state leaves: the server
   * replies to a new connection, and the old one has received nothing for a time limit. Its client then
   * reconnects, and resends commands without a reply.
   */
  private async replaceSilent(connection: RedisClient): Promise<void> {
    if (this.checking.has(connection)) return
    this.checking.add(connection)
    const { stream } = connection
    const heard = stream?.bytesRead
    // Its client connects one that is not connected.
    const isSame = (): boolean => (
      (connection.status === 'ready' || connection.status === 'connect')
      && connection.stream === stream && connection.stream?.bytesRead === heard
    )
    if (isSame() && !await this.replies(connection)) {
      const probe = connection.duplicate(OWN)
      // Without a listener the client writes each failed connect to the console.
      probe.on('error', () => undefined)
      const isServing = await this.replies(probe)
      probe.disconnect()
      if (isServing && isSame()) connection.disconnect(true)
    }
    this.checking.delete(connection)
  }

  private replies(connection: RedisClient): Promise<boolean> {
    return within(connection.ping(), this.timeoutMs, () => new Error('late'))
      .then(() => true, () => false)
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
