import timers from 'node:timers'
import { checkNames } from '../../src/runtime/option-names.js'
import type { Breaker } from '../../src/stores/breaker.js'
import { checkNamespace } from '../../src/stores/namespace.js'
import type { TaskIndex } from '../../src/stores/task-index.js'
import type { RedisClient } from './client.js'
import { redisBreaker } from './redis-breaker.js'
import { LIST, runScript, TAKE } from './scripts.js'
import type { RedisStoreOptions } from './store.js'

// Taken at once: Redis keeps real time, also under a test's fake timers, and one of those would be
// the last when they go.
const { setImmediate, setTimeout, clearTimeout } = timers

/** Sorted sets in a Cluster, so that one node does not have all the writes. */
const CLUSTER_SETS = 16
/** Entries of one command at most. */
const MOST = 500
/** Time for which removals are batched, in milliseconds. No caller waits for them. */
const REMOVAL_MS = 20
/** Stands for a removal among the times. */
const GONE = '-'

const KNOWN = { client: 0, namespace: 0, timeoutMs: 0 } satisfies Record<keyof RedisStoreOptions, 0>

/**
 * The task index on Redis 6.2 or later: sorted sets of entries by the time of their next look, on
 * Redis' clock. One set on a single server, 16 with hash tags in a Cluster. Writes of one turn of
 * the event loop are sent in one command.
 */
export class RedisTaskIndex implements TaskIndex {
  readonly shared = true
  private readonly client: RedisClient
  private readonly sets: readonly string[]
  private readonly breaker: Breaker
  /** Pending writes: an entry and its time in milliseconds from now, or `GONE`. */
  private pending = new Map<string, string>()
  private sent: Promise<void> | undefined
  private timer: ReturnType<typeof setTimeout> | undefined

  /** Throws a `TypeError` when an option makes no sense. */
  constructor(options: RedisStoreOptions) {
    checkNames('RedisTaskIndex', options, KNOWN)
    const { client, namespace = 'longhaul', timeoutMs = 1500 } = options
    checkNamespace('RedisTaskIndex', namespace)
    this.client = client
    const key = `${namespace}:unfinished`
    this.sets = client.nodes
      ? Array.from({ length: CLUSTER_SETS }, (_, n) => `${key}:{${String(n)}}`)
      : [key]
    this.breaker = redisBreaker(timeoutMs)
  }

  add(entry: string, afterMs: number): Promise<void> {
    this.pending.set(entry, String(Math.ceil(afterMs)))
    // Requests that are read in one turn of the event loop share a command.
    this.sent ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.sent = undefined
        this.flush().then(resolve, reject)
      })
    })
    return this.sent
  }

  remove(entry: string): void {
    this.pending.set(entry, GONE)
    this.timer ??= setTimeout(() => {
      this.flush().catch(() => undefined)
    }, REMOVAL_MS).unref()
  }

  async take(limit: number, againMs: number): Promise<string[]> {
    const entries: string[] = []
    // Not always the same set first: with many entries due, each has its turn.
    const first = Math.floor(Math.random() * this.sets.length)
    for (const key of [...this.sets.slice(first), ...this.sets.slice(0, first)]) {
      if (entries.length >= limit) break
      const left = limit - entries.length
      entries.push(...await this.call(TAKE, key, left, Math.ceil(againMs)) as string[])
    }
    return entries
  }

  private async flush(): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    const writes = new Map<string, string[][]>()
    for (const [entry, time] of this.pending) {
      const key = this.setOf(entry)
      const commands = writes.get(key) ?? []
      writes.set(key, commands)
      let last = commands.at(-1)
      if (last === undefined || last.length >= 2 * MOST) commands.push(last = [])
      last.push(entry, time)
    }
    this.pending = new Map()
    await Promise.all([...writes].flatMap(([key, commands]) => (
      commands.map((args) => this.call(LIST, key, ...args))
    )))
  }

  private call(script: typeof LIST, key: string, ...args: (string | number)[]): Promise<unknown> {
    const work = () => runScript(this.client, script, 1, key, ...args)
    return this.breaker.call(work, (reply) => reply)
  }

  private setOf(entry: string): string {
    let hash = 0
    for (let at = 0; at < entry.length; at++) hash = (hash * 31 + entry.charCodeAt(at)) | 0
    return this.sets[Math.abs(hash) % this.sets.length] as string
  }
}
