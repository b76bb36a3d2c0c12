import type { IndexBatch } from '../../src/stores/index-writes.js'
import { LISTED_STATUSES, type ListEntry, type ListedTask } from '../../src/stores/task-index.js'
import type { Script } from './scripts.js'
import { WRITE } from './task-index-scripts.js'

/** Number of buckets in a Cluster, so that one server does not have all the writes. */
const CLUSTER_BUCKETS = 16
/** Maximum number of operations in one command. */
const MOST = 500

/** Runs a script. */
export type Run = (
  script: Script, keys: readonly string[], args: readonly (string | number)[],
) => Promise<unknown>

/** The keys of one bucket of the index. */
export interface Bucket {
  readonly checks: string
  readonly lists: string
}

/** One operation of `WRITE`. */
type Operation = string

/** The buckets of an index: one on a single server, 16 with hash tags in a Cluster. */
export class IndexBuckets {
  readonly all: readonly Bucket[]

  constructor(namespace: string, isCluster: boolean, private readonly run: Run) {
    const tags = isCluster
      ? Array.from({ length: CLUSTER_BUCKETS }, (_, n) => `:{${String(n)}}`) : ['']
    this.all = tags.map((tag) => ({
      checks: `${namespace}:unfinished${tag}`, lists: `${namespace}:tasks${tag}`,
    }))
  }

  /** Returns the bucket of an owner, of a task without an owner, or of a check. */
  of(text: string): Bucket {
    let hash = 0
    if (this.all.length > 1) {
      for (let at = 0; at < text.length; at++) hash = (hash * 31 + text.charCodeAt(at)) | 0
    }
    return this.all[Math.abs(hash) % this.all.length] as Bucket
  }

  /**
   * Writes a batch: one command for each bucket. In several buckets, checks are removed once the
   * rest was written, with further commands.
   */
  async write({ added, restored, removed, put, dropped }: IndexBatch): Promise<void> {
    const first = new Operations()
    for (const task of put) first.add(this.of(task.owner ?? task.id), putOperation(task))
    for (const task of dropped) first.add(this.of(task.owner ?? task.id), dropOperation(task))
    for (const { entry, afterMs } of added) {
      first.add(this.of(entry), `a ${String(Math.ceil(afterMs))} ${entry}`)
    }
    for (const { entry, afterMs } of restored) {
      first.add(this.of(entry), `r ${String(Math.ceil(afterMs))} ${entry}`)
    }
    const removals = this.all.length > 1 ? new Operations() : first
    for (const entry of removed) removals.add(this.of(entry), `x ${entry}`)
    await first.send(this.run)
    if (removals !== first) await removals.send(this.run)
  }
}

/** Operations by bucket. */
class Operations {
  private readonly byBucket = new Map<Bucket, Operation[]>()

  add(bucket: Bucket, operation: Operation): void {
    const operations = this.byBucket.get(bucket)
    if (operations) operations.push(operation)
    else this.byBucket.set(bucket, [operation])
  }

  async send(run: Run): Promise<void> {
    await Promise.all([...this.byBucket].flatMap(([{ checks, lists }, operations]) => (
      chunksOf(operations).map((chunk) => run(WRITE, [checks, lists], chunk))
    )))
  }
}

function putOperation(task: ListedTask): Operation {
  const { id, owner = '', name, status, version, createdAt, ttlMs } = task
  const numbers = `${LISTED_STATUSES.indexOf(status)} ${version} ${createdAt} ${Math.ceil(ttlMs)}`
  return `p ${numbers} ${id} ${name} ${owner}`
}

function dropOperation({ id, owner = '', name, status, createdAt }: ListEntry): Operation {
  return `d ${LISTED_STATUSES.indexOf(status)} ${createdAt} ${id} ${name} ${owner}`
}

function chunksOf(operations: readonly Operation[]): (readonly Operation[])[] {
  if (operations.length <= MOST) return [operations]
  return [operations.slice(0, MOST), ...chunksOf(operations.slice(MOST))]
}
