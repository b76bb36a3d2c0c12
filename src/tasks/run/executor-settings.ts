import type { Blobs } from '../../stores/blobs.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { Ledger } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import type { OnTaskError } from '../record/report-error.js'
import type { StoreIdentity } from '../record/store-identity.js'
import type { HandBacks } from './hand-back.js'

/** Settings of an executor. */
export interface ExecutorSettings {
  readonly ledger: Ledger
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly durable: boolean
  readonly retentionMs: number
  /** Time for which a task that no worker can run is handed back before it fails. */
  readonly unknownTaskMs: number
  readonly maxResultBytes: number
  readonly blobs: Blobs | undefined
  readonly maxFileBytes: number
  readonly progressIntervalMs: number
  readonly identity: StoreIdentity
  readonly handBacks: HandBacks
  readonly onError: OnTaskError
  /**
   * Called when this process has found a record to be final, or has made it so. May be called again
   * for the same record.
   */
  readonly onFinal: (record: TaskRecord) => Promise<void>
}
