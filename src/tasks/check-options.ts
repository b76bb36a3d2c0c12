import { checkBounds, COUNT, KEPT, PAUSE, SIZE } from './definition/bounds.js'
import type { AnyTaskDefinition } from './definition/define.js'
import type { TasksOptions } from './tasks-options.js'

const KNOWN = {
  engine: 0, store: 0, blobs: 0, definitions: 0, worker: 0, direct: 0, concurrency: COUNT,
  pools: 0,
  retentionMs: KEPT, pendingMs: KEPT, maxInputBytes: SIZE, maxResultBytes: SIZE, maxFileBytes: SIZE,
  maxFileBytesPerOwner: SIZE, maxWaiters: SIZE, maxWaitersPerOwner: SIZE,
  maxCrashes: COUNT, unknownTaskMs: PAUSE, progressIntervalMs: PAUSE, callbacks: 0, onError: 0,
} satisfies Record<keyof TasksOptions, unknown>

const fault = (what: string) => new TypeError(`createTasks: ${what}`)

/** Throws a `TypeError` for options that make no sense, by themselves or together. */
export function checkOptions(options: TasksOptions): void {
  checkBounds('createTasks', options, KNOWN)
  const { engine, store, definitions, callbacks, direct } = options
  checkParts(engine, store)
  if (!definitions?.every?.(isDefinition)) {
    const given: unknown = definitions
    const isEndpoint = Array.isArray(given) && given.some((each: { task?: AnyTaskDefinition } | undefined) => isDefinition(each?.task))
    throw fault(`definitions must be a list of what defineTask made${isEndpoint ? '; of a background endpoint pass its member task' : ''}`)
  }
  if (engine.shared && !store.shared) {
    throw fault('several processes share this engine, but the store is for one process; pass that of redis() or postgres()')
  }
  if (direct !== undefined && direct !== 'request' && direct !== 'task') throw fault("direct must be 'request' or 'task'")
  const local = definitions.find(({ shared }) => shared === false)
  if (engine.shared && local) {
    throw fault(`several processes share this engine, but ${local.name} has blobs for one process; give it blobs that all processes see`)
  }
  checkBlobs(options)
  const names = definitions.map(({ name }) => name)
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) throw fault(`two definitions are named ${twice}`)
  if (callbacks && typeof callbacks.open !== 'function') {
    throw fault('callbacks must be what callbacks() of longhaul/callbacks makes: write callbacks: callbacks({ secrets, … }), not callbacks: { secrets, … }')
  }
}

/** Result files must be where every process that shares the records can read them. */
function checkBlobs({ engine, blobs, definitions }: TasksOptions): void {
  const name = definitions.find(({ files }) => files === true)?.name
  if (name === undefined) return
  if (!blobs) {
    throw fault(`${name} writes files, so blobs are required; pass those of memory() or postgres(), or new FolderBlobs(folder) of longhaul/files`)
  }
  if (engine.shared && !blobs.shared) {
    throw fault(`${name} writes files and the engine is shared between processes, but the blobs are not; pass shared blobs, such as new FolderBlobs(folder, { shared: true })`)
  }
}

function checkParts(engine: unknown, store: unknown): void {
  if (engine && store) return
  const missing = engine ? 'store is' : store ? 'engine is' : 'engine and store are'
  throw fault(`${missing} missing; for one process: createTasks({ ...memory(), definitions })`)
}

/** Made by `defineTask`, which fills the time-out in. */
function isDefinition(each: AnyTaskDefinition | undefined): boolean {
  return each?.timeoutMs !== undefined
}
