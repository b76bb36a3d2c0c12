import { checkBounds, COUNT, KEPT, PAUSE, SIZE, TIMER } from './definition/bounds.js'
import { CALLBACK_JOB } from './record/callbacks.js'
import type { AnyTaskDefinition } from './definition/define.js'
import type { TasksOptions } from './tasks-options.js'

const KNOWN = {
  store: 0, queue: 0, blobs: 0, index: 0, definitions: 0, worker: 0, direct: 0, concurrency: COUNT,
  pools: 0, work: 0,
  retentionMs: KEPT, pendingMs: KEPT, maxInputBytes: SIZE, maxResultBytes: SIZE, maxFileBytes: SIZE, maxWaiters: SIZE, maxWaitersPerOwner: SIZE,
  leaseMs: KEPT, sweepMs: TIMER, unknownTaskMs: PAUSE, progressIntervalMs: PAUSE, callbacks: 0, onError: 0,
} satisfies Record<keyof TasksOptions, unknown>

const fault = (what: string) => new TypeError(`createTasks: ${what}`)

/** Throws a `TypeError` for options that make no sense, by themselves or together. */
export function checkOptions(options: TasksOptions): void {
  checkBounds('createTasks', options, KNOWN)
  const { store, queue, definitions, callbacks, direct } = options
  checkParts(store, queue)
  if (!definitions?.every?.(isDefinition)) {
    const given: unknown = definitions
    const isEndpoint = Array.isArray(given) && given.some((each: { task?: AnyTaskDefinition } | undefined) => isDefinition(each?.task))
    throw fault(`definitions must be a list of what defineTask made${isEndpoint ? '; of a background endpoint pass its member task' : ''}`)
  }
  if (queue.durable && !store.shared) {
    throw fault('several processes share this queue, but the store is for one process; pass that of redis() or postgres()')
  }
  if (queue.durable && options.index && !options.index.shared) {
    throw fault('several processes share this queue, but the index is for one process; pass that of redis() or postgres()')
  }
  if (direct !== undefined && direct !== 'here' && direct !== 'queue') throw fault("direct must be 'here' or 'queue'")
  const local = definitions.find(({ shared }) => shared === false)
  if (queue.durable && local) {
    throw fault(`several processes share this queue, but ${local.name} has blobs for one process; give it blobs that all processes see`)
  }
  checkBlobs(options)
  const names = definitions.map(({ name }) => name)
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) throw fault(`two definitions are named ${twice}`)
  if (names.includes(CALLBACK_JOB)) throw fault(`a definition can't be named ${CALLBACK_JOB}`)
  if (callbacks && typeof callbacks.open !== 'function') {
    throw fault('callbacks must be what callbacks() of longhaul/callbacks makes: write callbacks: callbacks({ secrets, … }), not callbacks: { secrets, … }')
  }
}

/** Result files must be where every process that shares the records can read them. */
function checkBlobs({ store, blobs, definitions }: TasksOptions): void {
  const name = definitions.find(({ files }) => files === true)?.name
  if (name === undefined) return
  if (!blobs) {
    throw fault(`${name} writes files, so blobs are required; pass those of memory() or postgres(), or new FolderBlobs(folder) of longhaul/files`)
  }
  if (store.shared && !blobs.shared) {
    throw fault(`${name} writes files and the store is shared between processes, but the blobs are not; pass shared blobs, such as new FolderBlobs(folder, { shared: true })`)
  }
}

function checkParts(store: unknown, queue: unknown): void {
  if (!store && !queue) throw fault('store and queue are missing; for one process: createTasks({ ...memory(), definitions })')
  if (!store) throw fault('store is missing; pass one, such as that of postgres() or memory()')
  if (!queue) throw fault('queue is missing; for one process: new MemoryQueue() of longhaul/memory')
}

/** Made by `defineTask`, which fills the time-out in. */
function isDefinition(each: AnyTaskDefinition | undefined): boolean {
  return each?.timeoutMs !== undefined
}
