import assert from 'node:assert/strict'
import type { Runner } from 'longhaul/conformance'
import type { EngineFixture, EngineSettings } from 'longhaul/conformance'
import type { TaskEngine } from '../../src/engine/engine.js'
import type { Expected, NewTask, StoredTask, TaskChange, TaskRef } from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import { ModelTasks } from './model-tasks.js'

const HOUR = 3_600_000
const STEPS = 400

/** Removes times, which differ between an engine and the model. Keeps whether there is one. */
function withoutTimes(task: StoredTask): object {
  const { createdAt: _created, expiresAt: _expires, ...others } = task
  const has = (time: number | undefined): boolean => time !== undefined
  return {
    ...others,
    startAt: has(task.startAt), finishedAt: has(task.finishedAt), callbackAt: has(task.callbackAt),
  }
}

function comparable(outcome: unknown): unknown {
  if (typeof outcome !== 'object' || outcome === null) return outcome
  if ('birth' in outcome) return withoutTimes(outcome as StoredTask)
  if ('task' in outcome && outcome.task) return { ...outcome, task: comparable(outcome.task) }
  return outcome
}

/**
 * Registers a test that makes the same random calls to an engine and to the model, one after the
 * other, and compares each outcome. No process works, so no run begins.
 */
export function comparesWithModel(
  runner: Runner, open: (settings: EngineSettings) => Promise<EngineFixture>, seed = Date.now() % 1e6,
): void {
  runner.it(`random calls have the outcomes of the model (seed ${String(seed)})`, async () => {
    const settings = { leaseMs: 15_000 }
    const fixture = await open(settings)
    try {
      await compare((await fixture.open()).engine, new ModelTasks(settings), seed)
    } finally {
      await fixture.close()
    }
  })
}

async function compare(engine: TaskEngine, model: ModelTasks, seed: number): Promise<void> {
  let state = seed
  const below = (count: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * count)
  }
  const one = <T>(of: readonly T[]): T => of[below(of.length)] as T
  const refs: TaskRef[] = []
  for (let step = 0; step < STEPS; step++) {
    const limit = one([undefined, { group: '', max: 2 }, { group: 'import', max: 1 }, { group: 'import', max: 2 }])
    const ref = refs.length > 0 ? one(refs) : { id: 'none', birth: 'none' }
    const current = model.row(ref.id)?.task
    const newTask = (): NewTask => ({
      id: `task-${String(below(12))}`, birth: `birth-${String(step)}`,
      key: one([undefined, 'a', 'b', 'c', 'd']), owner: one([undefined, 'ann', 'bob']),
      caller: one([undefined, 'ann', 'bob']), limit, name: one(['report', 'import']), pool: 'nobody',
      priority: below(3), input: Json.of({ step }), details: { step }, keepMs: HOUR,
      ...one([{}, { start: { delayMs: HOUR } }]),
    })
    const expected = (): Expected => one<Expected>([
      { version: current?.version ?? 1 }, { version: current?.version ?? 1 }, { version: below(4) },
      { lease: String(below(2)) }, { callbackRun: current?.callbackRun ?? 0 },
    ])
    const change = (): TaskChange => ({
      ...one<TaskChange>([
        {}, { status: 'failed' }, { status: 'cancelled' }, { status: 'completed', result: '1' },
        { status: 'queued', limit },
      ]),
      ...one<TaskChange>([{}, { details: { step } }, { isHidden: true }]),
      ...one<TaskChange>([{}, { callbackMs: HOUR }, { callbackMs: null }]),
    })
    const kind = below(10)
    let outcomes: readonly [unknown, unknown]
    if (kind < 4) {
      const task = newTask()
      refs.push(task)
      outcomes = [await engine.create(task), model.create(task)]
    } else if (kind < 8) {
      const [holds, made] = [expected(), change()]
      const isAllowed = made.status === undefined || current === undefined || 'version' in holds
      // Changes that the core of tasks never makes: an end of a final task, a retry or a callback of
      // another one.
      const isEnd = made.status !== undefined && made.status !== 'queued'
      const isFinal = current?.finishedAt !== undefined
      if (!isAllowed || (isFinal && isEnd)) continue
      if (!isFinal && (made.status === 'queued' || (!isEnd && made.callbackMs !== undefined))) continue
      if (Object.keys(made).every((name) => name === 'isHidden')) continue
      outcomes = [await engine.change(ref, holds, made), model.change(ref, holds, made)]
    } else {
      const version = current?.version ?? below(4)
      outcomes = [await engine.delete(ref, version), model.delete(ref, version)]
    }
    assert.deepEqual(comparable(outcomes[0]), comparable(outcomes[1]), `step ${String(step)}`)
    if (step % 20 === 0) await compareLists(engine, model)
  }
  await compareLists(engine, model)
}

/** Compares the lists. The order differs within a millisecond, and between the two clocks. */
async function compareLists(engine: TaskEngine, model: ModelTasks): Promise<void> {
  for (const of of ['all', { owner: 'ann' }, { owner: undefined }] as const) {
    for (const statuses of [undefined, ['scheduled'], ['queued'], ['failed', 'completed']] as const) {
      const query = { of, statuses, order: 'oldest', limit: 1000 } as const
      const found = (await engine.list(query)).map(withoutTimes)
      const expected = model.list(query).map(withoutTimes)
      assert.deepEqual(sorted(found), sorted(expected))
    }
  }
}

function sorted(tasks: readonly object[]): unknown[] {
  return tasks.map((task) => JSON.stringify(task)).sort().map((text) => JSON.parse(text) as unknown)
}
