import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, httpError, jsonSchema, type TaskContext } from 'longhaul'
import { ATTEMPTS, FAIR_PLACES, LIMITED_PER_OWNER, LIMITS, type WorkInput } from './terms.js'

/** What a run saves after each step. No two saves have the same `id`. */
interface Saved {
  readonly step: number
  readonly id: string
}

const STEPS = 4
let saves = 0

/** Makes steps, and tells of each. */
async function run(input: WorkInput, { attempt, signal, progress }: TaskContext): Promise<object> {
  for (let step = 1; step <= STEPS; step++) {
    await sleep(input.ms / STEPS, undefined, { signal })
    progress(step, STEPS)
  }
  return end(input, attempt)
}

/** Makes steps, saves after each one, and continues after the last one that was saved. */
async function runAndSave(
  input: WorkInput, { attempt, signal, checkpoint }: TaskContext<unknown, Saved>,
): Promise<object> {
  for (let step = (checkpoint.value?.step ?? 0) + 1; step <= STEPS; step++) {
    await sleep(input.ms / STEPS, undefined, { signal })
    await checkpoint.save({ step, id: `${String(process.pid)}-${String(++saves)}` })
  }
  return end(input, attempt)
}

function end({ n, mode }: WorkInput, attempt: number): object {
  if (mode === 'fails') throw httpError('unprocessable', { message: 'It fails, as it was told to.' })
  if (mode === 'flaky' && attempt === 1) throw new Error('It fails the first time')
  return { message: 'done', n }
}

const input = jsonSchema<WorkInput>({ type: 'object', required: ['n', 'ms', 'mode'] })
const checkpoint = jsonSchema<Saved>({ type: 'object', required: ['step', 'id'] })
const settings = { attempts: ATTEMPTS, backoff: { type: 'fixed', delayMs: 50 }, input } as const
const saving = { ...settings, checkpoint, maxPerOwner: 10_000, run: runAndSave }

export const works = {
  work: defineTask({ ...settings, name: 'work', run }),
  limited: defineTask({
    ...saving, name: 'limited', pool: 'limited', maxRunningPerOwner: LIMITED_PER_OWNER,
  }),
  unique: defineTask({ ...saving, name: 'unique', pool: 'limited' }),
  fair: defineTask({ ...saving, name: 'fair', pool: 'fair' }),
}

export const pools = {
  limited: { concurrency: LIMITS.maxRunning, ...LIMITS },
  fair: { concurrency: FAIR_PLACES },
}
