import { httpError } from '../../http/errors.js'
import { validate } from '../../schema/validate.js'
import type { Revision } from '../../stores/store.js'
import type { Checkpoint } from '../definition/checkpoint.js'
import { checkpointText } from '../definition/checkpoint-text.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { Ledger } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import {
  checkpointKey, decodeCheckpoint, encodeCheckpoint, keptWithTask, type CheckpointEntry,
} from './checkpoint-entry.js'
import type { Stop } from './stop.js'

/** Time for which a save is retried while the store is unavailable, in milliseconds. */
const MAX_SAVE_MS = 30_000

/** The run that a checkpoint belongs to. */
export interface CheckpointRun {
  readonly ledger: Ledger
  readonly definition: AnyTaskDefinition
  /** The record as this run began. */
  readonly record: TaskRecord
  /** Milliseconds for which the record of the task is kept after its end. */
  readonly retentionMs: number
  readonly stop: Stop
  /** Returns whether a record still belongs to this run. */
  readonly isOwn: (record: TaskRecord) => boolean
  /** Aborts the run, because another run has replaced it. */
  readonly onReplaced: () => void
  /** Called with the reason when the value of an earlier run cannot be used. */
  readonly onDropped: (error: Error) => void
}

/**
 * The checkpoint of one run. The first run of a task reads nothing. A later run claims the entry
 * with its attempt number before it begins, so that a save of an earlier run finds another
 * revision and is refused.
 */
export class RunCheckpoint implements Checkpoint {
  value: unknown
  private revision: Revision | undefined
  private saving: Promise<void> = Promise.resolve()
  private ended = false

  constructor(private readonly run: CheckpointRun) {}

  /**
   * Claims the entry for this run and reads its value. Waits while the store is unavailable, as
   * the beginning of a run does.
   */
  async claim(): Promise<void> {
    const { run: { ledger, record } } = this
    const found = await ledger.retry.run(() => this.tryClaim())
    // An entry of an earlier task under the same id is not of this task.
    if (found?.text === undefined || found.createdAt !== record.createdAt) return
    const { value, fault } = await this.read(found)
    if (fault === undefined) this.value = value
    else this.run.onDropped(fault)
  }

  /** Saves a value; see `Checkpoint`. */
  async save(value: unknown): Promise<void> {
    const { definition, stop } = this.run
    const text = checkpointText(definition.name, value)
    const saved = this.saving.then(() => this.write(text))
    this.saving = saved.catch(() => undefined)
    await saved
    if (stop.aborted) throw stop.reason
  }

  /** Waits for the saves that were begun, and refuses others. Called when the run has ended. */
  async end(): Promise<void> {
    this.ended = true
    await this.saving
  }

  /** Returns the entry that was there before the claim. */
  private async tryClaim(): Promise<CheckpointEntry | undefined> {
    const { ledger: { store }, record, definition: { version } } = this.run
    for (;;) {
      const entry = await store.get(checkpointKey(record.id))
      const found = entry && decodeCheckpoint(entry.value)
      this.revision = entry?.revision
      const isUsable = found?.createdAt === record.createdAt && found.version === version
      if (await this.put(isUsable ? found.text : undefined)) return found
    }
  }

  private async read(
    { version, text = '' }: CheckpointEntry,
  ): Promise<{ readonly value?: unknown, readonly fault?: Error }> {
    const { definition } = this.run
    if (version !== definition.version) {
      const [saved = 'none', now = 'none'] = [version, definition.version]
      return { fault: dropped(`It was saved by version ${saved} of ${definition.name}, and this process has version ${now}.`) }
    }
    try {
      const outcome = await validate(definition.checkpoint as NonNullable<typeof definition.checkpoint>, JSON.parse(text))
      if (!('details' in outcome)) return { value: outcome.value }
      return { fault: dropped(`The schema of ${definition.name} refuses it.`, outcome.details) }
    } catch (error) {
      return { fault: dropped(`The schema of ${definition.name} failed on it.`, error) }
    }
  }

  private async write(text: string): Promise<void> {
    const { run: { ledger } } = this
    const end = performance.now() + MAX_SAVE_MS
    for (let tries = 1; ; tries++) {
      try {
        await this.tryWrite(text)
        return
      } catch (error) {
        if (performance.now() >= end) throw error
        await ledger.retry.backOff(error, tries, ledger.store.shared)
      }
    }
  }

  private async tryWrite(text: string): Promise<void> {
    // The entry that a first run creates has no fence yet, so the record has to tell.
    if (this.revision === undefined && this.run.ledger.store.shared) await this.requireOwn()
    if (this.ended) this.refuse()
    while (!await this.put(text)) await this.requireOwn()
  }

  /** Writes the entry at the known revision. On conflict, notes the revision and returns false. */
  private async put(text: string | undefined): Promise<boolean> {
    const { ledger: { store }, record, definition: { version }, retentionMs } = this.run
    const { id, createdAt, attempt, expiresAt } = record
    const key = checkpointKey(id)
    const value = encodeCheckpoint({ createdAt, attempt, version, text })
    const kept = keptWithTask(id, Math.max(expiresAt - Date.now(), 0) + retentionMs)
    if (this.revision === undefined) {
      const made = await store.create(key, value, kept)
      this.revision = made.created ? made.revision : made.entry.revision
      return made.created
    }
    const made = await store.replace(key, value, this.revision, kept)
    this.revision = made.replaced ? made.revision : made.entry?.revision
    return made.replaced
  }

  /** Refuses a save unless the record still belongs to this run. */
  private async requireOwn(): Promise<void> {
    const { ledger, record, isOwn } = this.run
    const now = await ledger.load(record.id)
    if (!now || !isOwn(now.record)) this.refuse()
  }

  private refuse(): never {
    this.run.onReplaced()
    throw httpError('attempt_replaced')
  }
}

function dropped(why: string, cause?: unknown): Error {
  const message = `The checkpoint of the task was dropped, and the task starts over. ${why}`
  return httpError('checkpoint_dropped', { message, cause })
}
