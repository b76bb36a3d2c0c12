import type { Breaker } from '../../src/stores/breaker.js'
import { TASK_KEY, type Unlisted } from '../../src/stores/task-index.js'
import type { RedisClient } from './client.js'
import type { Bucket, Run } from './index-buckets.js'
import { runScript } from './scripts.js'
import { COMPLETE, SCAN } from './task-index-scripts.js'

/** Number of keys that one command looks at, about half a millisecond of Redis. */
const KEYS_PER_COMMAND = 1000
/** Maximum number of commands for one slice. */
const COMMANDS_PER_SLICE = 10
/** Time for which one process alone scans for lists that are not complete, in milliseconds. */
const LEASE_MS = 600_000

/**
 * Scan of the store for tasks, one slice at a time, so that lost entries of the index are restored.
 * If the lists have never been completed, or were deleted, the scan is urgent in one process at a
 * time, and marks the lists as complete at its end.
 */
export class TaskScan {
  private cursor = '0'
  private isUrgent = false
  /** Servers that are still to be scanned in this pass. The first one is being scanned. */
  private servers: RedisClient[] = []

  constructor(
    private readonly client: RedisClient, private readonly namespace: string,
    private readonly buckets: readonly Bucket[], private readonly run: Run,
    private readonly breaker: Breaker,
  ) {}

  /** Returns ids of about `limit` tasks. */
  async next(limit: number): Promise<Unlisted> {
    const [first] = this.servers
    if (first === undefined) await this.begin()
    const ids: string[] = []
    for (let count = 0; count < COMMANDS_PER_SLICE && ids.length < limit; count++) {
      const server = this.servers[0]
      if (server === undefined) break
      ids.push(...await this.scan(server))
    }
    return { ids, isUrgent: this.isUrgent }
  }

  /** Begins a pass. The caller has put all tasks of the pass before. */
  private async begin(): Promise<void> {
    if (this.isUrgent) {
      await Promise.all(this.buckets.map(({ lists }) => this.run(COMPLETE, [lists], ['mark'])))
    }
    const marks = await Promise.all(
      this.buckets.map(({ lists }) => this.run(COMPLETE, [lists], []))
    )
    this.isUrgent = marks.includes(0) && await this.lease()
    this.cursor = '0'
    this.servers = this.client.nodes?.('master') ?? [this.client]
  }

  private async lease(): Promise<boolean> {
    const key = `${this.namespace}:tasks-scan`
    const work = () => this.client.set(key, '', 'PX', LEASE_MS, 'NX')
    return this.breaker.call(work, (reply) => reply !== null)
  }

  private async scan(server: RedisClient): Promise<string[]> {
    // ioredis puts its `keyPrefix` before keys, but not before patterns.
    const { keyPrefix = '' } = this.client.options ?? {}
    const prefix = `${keyPrefix}${this.namespace}:e:${TASK_KEY}`
    const args = [this.cursor, `${escaped(prefix)}*`, KEYS_PER_COMMAND]
    const work = () => runScript(server, SCAN, 0, ...args)
    const [cursor, keys] = await this.breaker.call(work, (reply) => reply as [string, string[]])
    this.cursor = cursor
    if (cursor === '0') this.servers = this.servers.slice(1)
    return keys.map((key) => key.slice(prefix.length))
  }
}

/** Escapes the characters that have a meaning in patterns. */
function escaped(text: string): string {
  return text.replace(/[\\*?[\]^]/g, '\\$&')
}
