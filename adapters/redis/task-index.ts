import { checkNames } from '../../src/runtime/option-names.js'
import type { Breaker } from '../../src/stores/breaker.js'
import { IndexWrites } from '../../src/stores/index-writes.js'
import { checkNamespace } from '../../src/stores/namespace.js'
import {
  comparePositions, LISTED_STATUSES, type ListEntry, type ListedStatus, type ListedTask,
  type ListQuery, type TaskIndex, type Unlisted,
} from '../../src/stores/task-index.js'
import type { RedisClient } from './client.js'
import { redisBreaker } from './redis-breaker.js'
import { runScript, type Script } from './scripts.js'
import type { RedisStoreOptions } from './store.js'
import { IndexBuckets } from './index-buckets.js'
import { PAGE, TAKE } from './task-index-scripts.js'
import { TaskScan } from './task-scan.js'

/** Options of `RedisTaskIndex`. */
export type RedisTaskIndexOptions = Pick<RedisStoreOptions, 'client' | 'namespace' | 'timeoutMs'>

const KNOWN = { client: 0, namespace: 0, timeoutMs: 0 } satisfies Record<keyof RedisTaskIndexOptions, 0>

/**
 * Task index on Redis 6.2 or later: sorted sets in one bucket on a single server, in 16 buckets
 * with hash tags in a Cluster. Writes of one turn of the event loop are sent in one command. Each
 * task takes some 400 bytes until it expires.
 */
export class RedisTaskIndex implements TaskIndex {
  readonly shared = true
  private readonly client: RedisClient
  private readonly buckets: IndexBuckets
  private readonly breaker: Breaker
  private readonly writes: IndexWrites
  private readonly scan: TaskScan

  /** Throws a `TypeError` when an option makes no sense. */
  constructor(options: RedisTaskIndexOptions) {
    checkNames('RedisTaskIndex', options, KNOWN)
    const { client, namespace = 'longhaul', timeoutMs = 1500 } = options
    checkNamespace('RedisTaskIndex', namespace)
    this.client = client
    this.breaker = redisBreaker(timeoutMs)
    const run = this.run.bind(this)
    this.buckets = new IndexBuckets(namespace, client.nodes !== undefined, run)
    this.writes = new IndexWrites((batch) => this.buckets.write(batch))
    this.scan = new TaskScan(client, namespace, this.buckets.all, run, this.breaker)
  }

  add(entry: string, afterMs: number): Promise<void> {
    return this.writes.add(entry, afterMs)
  }

  restore(entry: string, afterMs: number): Promise<void> {
    return this.writes.restore(entry, afterMs)
  }

  remove(entry: string): void {
    this.writes.remove(entry)
  }

  async take(limit: number, againMs: number): Promise<string[]> {
    const entries: string[] = []
    // Starts at a random bucket, so that with many due entries no bucket is always the last.
    const { all } = this.buckets
    const first = Math.floor(Math.random() * all.length)
    for (const bucket of [...all.slice(first), ...all.slice(0, first)]) {
      if (entries.length >= limit) break
      const args = [limit - entries.length, Math.ceil(againMs)]
      entries.push(...await this.run(TAKE, [bucket.checks, bucket.lists], args) as string[])
    }
    return entries
  }

  put(task: ListedTask): Promise<void> {
    return this.writes.put(task)
  }

  putSoon(task: ListedTask): void {
    this.writes.putSoon(task)
  }

  drop(tasks: readonly ListEntry[]): Promise<void> {
    return this.writes.drop(tasks)
  }

  async list(query: ListQuery): Promise<ListEntry[]> {
    await this.writes.settle()
    const { of, order, limit, after } = query
    // The tasks of one owner are in one bucket. Those without an owner are in all.
    const buckets = of === 'all' || of.owner === undefined
      ? this.buckets.all : [this.buckets.of(of.owner)]
    const args = pageArguments(query)
    const replies = await Promise.all(buckets.map(({ lists }) => this.run(PAGE, [lists], args)))
    const sign = order === 'newest' ? -1 : 1
    return replies
      .flatMap((reply) => (reply as string[][]).flatMap((part) => entriesOf(part, of)))
      .filter((entry) => !after || sign * comparePositions(entry, after) > 0)
      .sort((one, other) => sign * comparePositions(one, other))
      .slice(0, limit)
  }

  unlisted(limit: number): Promise<Unlisted> {
    return this.scan.next(limit)
  }

  private run(
    script: Script, keys: readonly string[], args: readonly (string | number)[],
  ): Promise<unknown> {
    const work = () => runScript(this.client, script, keys.length, ...keys, ...args)
    return this.breaker.call(work, (reply) => reply)
  }
}

/** Returns the arguments of `PAGE`. */
function pageArguments(
  { of, statuses = LISTED_STATUSES, names = [], from, to, order, limit, after }: ListQuery,
): string[] {
  const isNewest = order === 'newest'
  let low = from ?? -Infinity
  let high = to === undefined ? '+inf' : `(${String(to)}`
  if (after && isNewest && (to === undefined || to > after.createdAt)) {
    high = String(after.createdAt)
  }
  if (after && !isNewest) low = Math.max(low, after.createdAt)
  const first = low === -Infinity ? '-inf' : String(low)
  return [
    of === 'all' ? 'all' : `=${of.owner ?? ''}`,
    ...isNewest ? [high, first, 'REV'] : [first, high, ''],
    String(limit), after ? String(after.createdAt) : '',
    statuses.map((status) => LISTED_STATUSES.indexOf(status)).join(''), ...names,
  ]
}

/** Returns the entries of one list in a reply of `PAGE`. */
function entriesOf([digit, name = '', ...pairs]: string[], of: ListQuery['of']): ListEntry[] {
  const status = LISTED_STATUSES[Number(digit)] as ListedStatus
  const entries: ListEntry[] = []
  for (let at = 0; at < pairs.length; at += 2) {
    const member = pairs[at] as string
    const createdAt = Number(pairs[at + 1])
    if (of === 'all') {
      const end = member.indexOf('\n')
      const owner = member.slice(end + 1) || undefined
      entries.push({ id: member.slice(0, end), owner, name, status, createdAt })
    } else entries.push({ id: member, owner: of.owner, name, status, createdAt })
  }
  return entries
}
