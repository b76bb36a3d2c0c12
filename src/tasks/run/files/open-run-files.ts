import type { Moved } from '../../record/ledger.js'
import type { AnyTaskDefinition } from '../../definition/define.js'
import { droppedFileKeys, fileRunOf, withFileRun } from '../../record/files.js'
import type { TaskChange, TaskRecord } from '../../record/record.js'
import type { ExecutorSettings } from '../executor-settings.js'
import type { Stop } from '../stop.js'
import { RunFiles } from './run-files.js'
import { deleteFiles } from './stored-files.js'

/**
 * Time that a blob is kept beyond its record, in milliseconds. The write that ends the run may wait
 * for a store that is away.
 */
const MARGIN_MS = 3_600_000
/** Time that a task may wait for a run that takes its files over, in milliseconds. */
const WAIT_MS = 86_400_000

/** One attempt, as its files need it. */
interface Attempt {
  readonly record: TaskRecord
  readonly retentionMs: number
  readonly stop: Stop
  /** Changes the record, unless another attempt or a cancel came first. */
  readonly write: (change: (record: TaskRecord) => TaskChange) => Promise<Moved | undefined>
}

/** Returns the files of an attempt, or `undefined` if its definition has none. */
export function openRunFiles(
  { blobs, ...settings }: ExecutorSettings, definition: AnyTaskDefinition,
  { record, retentionMs, stop, write }: Attempt,
): RunFiles | undefined {
  if (!definition.files || !blobs) return undefined
  const { timeoutMs, maxFileBytes = settings.maxFileBytes } = definition
  const run = fileRunOf(record)
  const change = async (to: (record: TaskRecord) => TaskChange): Promise<void> => {
    const now = await write(to)
    if (!now?.moved) throw new Error('The run was replaced by a later one')
  }
  const waitMs = definition.checkpoint ? WAIT_MS : 0
  return new RunFiles({
    taskId: record.id, run, blobs, maxFileBytes, stop,
    ttlMs: waitMs + timeoutMs + retentionMs + MARGIN_MS,
    reserve: async (slots) => {
      let dropped: readonly string[] = []
      await change((now) => {
        const fileRuns = withFileRun(now.fileRuns, run, slots)
        dropped = droppedFileKeys(now, fileRuns)
        return { fileRuns }
      })
      await deleteFiles(blobs, dropped)
    },
    keep: (names) => change(() => ({ blobs: names })),
  })
}
