import { aboutTask, warn } from '../runtime/warning.js'
import { assertSchema, type Schema } from '../schema/schema.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { BulkTask, BulkTaskOptions } from './bulk-task.js'
import type { BulkFaultPlace, Plan } from './plan.js'

/** What both bulk endpoints may be told. Sizes are in bytes. */
export interface BulkOptions<T> {
  /** Judges each item; what comes out of it is written. Default: any object goes. */
  readonly schema?: Schema<T>
  /**
   * `true`: all items are written, or none; needs `transaction` of the repository. `'if-possible'`:
   * the same where the repository has it. `false`: each item is written or refused on its own.
   */
  readonly atomic?: boolean | 'if-possible'
  /** Items for one `createMany` or `updateMany`. Default 500. */
  readonly batchSize?: number
  /**
   * Items that are written at the same time where the repository has only `create` or `update`, and
   * items that an asynchronous schema judges at the same time. Default 8. In a transaction they are
   * written one after the other.
   */
  readonly concurrency?: number
  /** More items are a 413. Default 100 000. */
  readonly maxItems?: number
  /** Bytes as sent; more are a 413. Default 32 MiB. */
  readonly maxBytes?: number
  /** Bytes once the content coding is undone. Default: `maxBytes`. */
  readonly maxDecodedBytes?: number
  /** Decoded bytes for one byte sent, once there are more than 1 MiB. Default 250. */
  readonly maxRatio?: number
  /** One item of a body that is streamed. Default 1 MiB. */
  readonly maxItemBytes?: number
  /**
   * Larger bodies are not read as a whole but streamed to the repository in batches. Default 1 MiB.
   */
  readonly streamAboveBytes?: number
  /** Behind so many bytes of a report, failed items are told by their code alone. Default 8 MiB. */
  readonly maxReportBytes?: number
  /** The status where some items went well and others did not. Default 207. */
  readonly mixedStatus?: 200 | 207
  /**
   * Is told of what the repository or the schema fails with: at most ten faults of a request or of
   * an attempt. In the background `at` says which task it was. Default: a process warning, as of
   * the error boundary.
   */
  readonly onError?: (error: unknown, at?: BulkFaultPlace) => unknown
}

/** How a bulk endpoint works in the background. */
export interface BulkBackground<C> {
  readonly endpoints: TaskEndpoints<C>
  /**
   * Made by `bulkCreateTask` or `bulkUpdateTask`, and among the definitions of the tasks whose
   * `endpoints` these are.
   */
  readonly task: BulkTask
}

/** The names of what both may be told: the handler and its task are given the same options. */
export const KNOWN = {
  repository: 0, schema: 0, atomic: 0, batchSize: 0, concurrency: 0, maxItems: 0, maxBytes: 0, maxDecodedBytes: 0, maxRatio: 0, maxItemBytes: 0,
  streamAboveBytes: 0, maxReportBytes: 0, mixedStatus: 0, onError: 0, background: 0, blobs: 0, keepMs: 0, maxInlineBytes: 0, name: 0, timeoutMs: 0,
  attempts: 0, backoff: 0, retentionMs: 0, maxPerOwner: 0,
} satisfies Record<keyof (BulkOptions<never> & BulkTaskOptions) | 'repository' | 'background', 0>

type Defaults = Pick<Plan<never>,
  'batchSize' | 'concurrency' | 'maxItems' | 'maxBytes' | 'maxDecodedBytes' | 'maxRatio' | 'maxItemBytes' | 'streamAboveBytes' | 'maxReportBytes' | 'mixedStatus' | 'onError'>

const MAX_ITEM_BYTES = 268_435_456

/** The options with their defaults. Throws a `TypeError` when one makes no sense. */
export function withDefaults<T>(name: string, options: BulkOptions<T>): Defaults {
  const {
    batchSize = 500, concurrency = 8, maxItems = 100_000, maxBytes = 33_554_432, maxDecodedBytes = maxBytes, maxRatio = 250, maxItemBytes = 1_048_576,
    streamAboveBytes = 1_048_576, maxReportBytes = 8_388_608, mixedStatus = 207, onError = warnOfBulk, schema,
  } = options
  for (const [key, value] of Object.entries({ batchSize, concurrency, maxItems })) {
    if (!(value >= 1 && (Number.isInteger(value) || value === Infinity))) throw new TypeError(`${name}: ${key} must be a whole number from 1`)
  }
  for (const [key, value] of Object.entries({ maxBytes, maxDecodedBytes, maxRatio })) {
    if (!(value >= 1)) throw new TypeError(`${name}: ${key} must be 1 or more`)
  }
  for (const [key, value] of Object.entries({ streamAboveBytes, maxReportBytes })) {
    if (!(value >= 0)) throw new TypeError(`${name}: ${key} must be 0 or more`)
  }
  if (!(Number.isInteger(maxItemBytes) && maxItemBytes >= 1 && maxItemBytes <= MAX_ITEM_BYTES)) {
    throw new TypeError(`${name}: maxItemBytes must be a whole number from 1 to ${MAX_ITEM_BYTES}`)
  }
  if (mixedStatus !== 200 && mixedStatus !== 207) throw new TypeError(`${name}: mixedStatus must be 200 or 207`)
  if (schema !== undefined) assertSchema(schema, `${name}: schema`)
  if (typeof onError !== 'function') throw new TypeError(`${name}: onError must be a function`)
  return {
    batchSize, concurrency: Math.min(concurrency, 10_000), maxItems, maxBytes, maxDecodedBytes, maxRatio, maxItemBytes, streamAboveBytes,
    maxReportBytes, mixedStatus, onError,
  }
}

function warnOfBulk(error: unknown, at?: BulkFaultPlace): void {
  warn(error, at && aboutTask(at))
}

/** Whether batches are atomic. Throws a `TypeError` where they should be and can't. */
export function isAtomic<R extends { transaction?: unknown }>(
  name: string, atomic: boolean | 'if-possible', repository: R,
): repository is R & { transaction: NonNullable<R['transaction']> } {
  if (atomic !== true && atomic !== false && atomic !== 'if-possible') throw new TypeError(`${name}: atomic must be true, false or 'if-possible'`)
  if (repository.transaction !== undefined) return atomic !== false
  if (atomic !== true) return false
  throw new TypeError(`${name}: atomic needs a repository with transaction(work, call); give it one, or set atomic to false or 'if-possible'`)
}
