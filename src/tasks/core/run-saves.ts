import type { StoredTask } from '../../engine/task.js'
import { httpError } from '../../http/errors.js'
import { Sequence } from '../../runtime/maybe-promise.js'
import { PacedWrites } from '../../runtime/paced-writes.js'
import { validate, type Schema, type Validation } from '../../schema/schema.js'
import type { PartsCheckpoint } from '../definition/run-context.js'
import { checkpointText } from '../definition/json-values.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { publishStep, taskChannel } from '../record/diagnostics.js'
import type { Stop } from '../run/run.js'
import type { TaskCore } from './task-core.js'
import { cutText } from '../../runtime/text.js'
import type { Details } from '../record/details.js'
import type { PartList } from '../../stores/parts.js'
import type { TaskProgress } from '../../wire/task.js'

/** Time for which a save of a checkpoint is retried, in milliseconds. */
const MAX_SAVE_MS = 30_000

interface CheckpointRun {
  readonly core: TaskCore
  readonly task: StoredTask
  readonly lease: string
  readonly definition: AnyTaskDefinition
  readonly saved: string | undefined
  readonly stop: Stop
  readonly isOver: () => boolean
  /** Returns the details of the task with another list of parts. */
  readonly withParts: (parts: PartList) => Details
}

export async function openCheckpoint(run: CheckpointRun): Promise<PartsCheckpoint<unknown>> {
  const { core, task, definition, saved, stop } = run
  let value: unknown
  try {
    if (saved !== undefined) value = await savedValue(definition, saved)
  } catch (error) {
    if (taskChannel.hasSubscribers) publishStep('checkpoint_dropped', task)
    core.report(error, task)
  }
  const saves = new Sequence()
  return {
    value,
    save: async (next, parts) => {
      const text = checkpointText(definition.name, next)
      await saves.run(() => save(run, text, parts))
      if (stop.aborted) throw stop.reason
    },
  }
}

async function save(
  { core, task, lease, definition: { version = '' }, stop, isOver, withParts }: CheckpointRun,
  text: string, parts: PartList | undefined,
): Promise<void> {
  const end = performance.now() + MAX_SAVE_MS
  for (let tries = 1; ; tries++) {
    if (isOver()) throw httpError('attempt_replaced')
    try {
      const change = {
        checkpoint: `${JSON.stringify(version)}\n${text}`,
        ...parts && { details: withParts(parts), isHidden: true },
      }
      const { moved } = await core.change(task, { lease }, change)
      if (moved) return
      break
    } catch (error) {
      if (performance.now() >= end) throw error
      await core.retry.backOff(error, tries)
    }
  }
  const replaced = httpError('attempt_replaced')
  stop.abort(replaced)
  throw replaced
}

async function savedValue(
  { name, version = '', checkpoint }: AnyTaskDefinition, saved: string,
): Promise<unknown> {
  const end = saved.indexOf('\n')
  const by = JSON.parse(saved.slice(0, end)) as string
  if (by !== version) {
    throw dropped(`It was saved by version ${by || 'none'} of ${name}, and this process has version ${version || 'none'}.`)
  }
  let outcome: Validation<unknown>
  try {
    outcome = await validate(checkpoint as Schema, JSON.parse(saved.slice(end + 1)))
  } catch (error) {
    throw dropped(`The schema of ${name} failed on it.`, error)
  }
  if ('details' in outcome) throw dropped(`The schema of ${name} rejects it.`, outcome.details)
  return outcome.value
}

function dropped(why: string, cause?: unknown): Error {
  const message = `The checkpoint of the task was dropped, and the task starts over. ${why}`
  return httpError('checkpoint_dropped', { message, cause })
}

const MAX_MESSAGE_LENGTH = 500
const MAX_UNIT_LENGTH = 50

/** Writes the newest report at once, then at most every `intervalMs`. */
export class ProgressWriter {
  private latest: TaskProgress | undefined
  private readonly writes: PacedWrites

  constructor(write: (progress: TaskProgress) => Promise<void>, intervalMs: number) {
    this.writes = new PacedWrites(async () => {
      const progress = this.latest as TaskProgress
      this.latest = undefined
      // A failed write does no harm: the end of the run writes the task too.
      await write(progress).catch(() => undefined)
    }, () => intervalMs)
  }

  /** Ignores numbers that are not finite, such as `done / 0`. */
  report(done: number, total?: number, message?: string, unit?: string): void {
    if (!Number.isFinite(done)) return
    this.latest = {
      done,
      ...(total !== undefined && Number.isFinite(total) ? { total } : {}),
      ...(typeof message === 'string' ? { message: cutText(message, MAX_MESSAGE_LENGTH) } : {}),
      ...(typeof unit === 'string' ? { unit: cutText(unit, MAX_UNIT_LENGTH) } : {}),
    }
    this.writes.request()
  }

  /** Makes no more writes. Returns the report that is not yet written. */
  async close(): Promise<TaskProgress | undefined> {
    await this.writes.close()
    return this.latest
  }
}
