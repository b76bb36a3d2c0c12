// Tasks that this process cannot run, while another one may.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { httpError } from '../../../../src/http/errors.js'
import { jsonSchema } from '../../../../src/schema/json-schema.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask, type AnyTaskDefinition } from '../../../../src/tasks/definition/define.js'
import { HandEngine } from '../../kit/hand-engine.js'
import { Spy, SpyStore } from '../../kit/tasks.js'

const HOUR = 3_600_000
const any = defineTask({ name: 'work', run: () => ({ message: 'done' }) })
const other = defineTask({ name: 'other', run: () => undefined })
const strict = defineTask({
  name: 'work',
  input: jsonSchema({ type: 'object', properties: { year: { type: 'integer' } }, additionalProperties: false }),
  run: () => ({ message: 'done' }),
})

/** A process of the old version, one of the new one, and the engine between them. */
function setUp(old: AnyTaskDefinition, fresh: AnyTaskDefinition = any) {
  const store = new SpyStore(memory().store, new Spy(), true)
  const engine = new HandEngine()
  const heard: { message: string, taskId: string, attempt: number }[] = []
  const web = createTasks({ store, engine: engine.another(), definitions: [any], worker: false })
  const worker = (definition: AnyTaskDefinition): HandEngine => {
    const own = engine.another()
    createTasks({
      store, engine: own, definitions: [definition], unknownTaskMs: HOUR,
      onError: (error, { taskId, attempt }) => { heard.push({ message: (error as Error).message, taskId, attempt }) },
    })
    return own
  }
  return { web, engine, old: worker(old), fresh: worker(fresh), heard }
}

for (const [what, definition, code] of [
  ['a definition that it does not know', other, 'unknown_task'],
  ['a schema that refuses the input', strict, 'invalid_input'],
] as const) {
  describe(`a worker with ${what} (15.7)`, () => {
    test('gives the task back, calls onError once, and leaves the task to a worker that can run it', async () => {
      const { web, engine, old, fresh, heard } = setUp(definition)
      const { taskId: id } = await web.submit(any, { month: 1 })
      for (let times = 0; times < 3; times++) {
        await old.deliver(id)
        const delayMs = engine.delayOf(id)
        assert.ok(delayMs >= 500 && delayMs < 60_000, String(delayMs))
        engine.pass(delayMs)
      }
      assert.deepEqual(
        heard.map(({ taskId, attempt }) => [taskId, attempt]),
        [[id, 0]],
      )
      assert.match(heard[0]?.message ?? '', /given back/)
      const waiting = await web.get(id)
      assert.deepEqual([waiting?.status, waiting?.attempt], ['queued', undefined])
      await fresh.deliver(id)
      assert.deepEqual([(await web.get(id))?.status, (await web.get(id))?.attempt], ['completed', 1])
    })

    test('fails the task after unknownTaskMs without a process that can run it, by the clock of the engine, even if it had waited before', async () => {
      const { web, engine, old } = setUp(definition)
      const { taskId: id } = await web.submit(any, { month: 1 })
      engine.pass(5 * HOUR)
      await old.deliver(id)
      engine.pass(HOUR - 1000)
      await old.deliver(id)
      assert.equal((await web.get(id))?.status, 'queued')
      engine.pass(30_000)
      await old.deliver(id)
      const task = await web.get(id)
      assert.deepEqual([task?.status, task?.error?.code], ['failed', code])
    })

    test('starts unknownTaskMs again after a run', async () => {
      const { web, engine, old, fresh } = setUp(
        definition,
        defineTask({
          name: 'work',
          attempts: 5,
          backoff: { type: 'fixed', delayMs: 0 },
          run: () => {
            throw new Error('not yet')
          },
        }),
      )
      const { taskId: id } = await web.submit(any, { month: 1 })
      await old.deliver(id)
      engine.pass(HOUR / 2)
      await fresh.deliver(id)
      engine.pass(HOUR)
      await old.deliver(id)
      assert.equal((await web.get(id))?.status, 'queued')
    })
  })
}

test('a worker counts a schema that throws as a failed attempt', async () => {
  const broken = defineTask({
    name: 'work',
    input: {
      '~standard': {
        version: 1,
        vendor: 'x',
        validate: () => {
          throw httpError('bad_gateway')
        },
      },
    },
    run: () => undefined,
  })
  const { web, old } = setUp(broken)
  const { taskId: id } = await web.submit(any, 1)
  await old.deliver(id)
  assert.deepEqual([(await web.get(id))?.error?.code, (await web.get(id))?.attempt], ['bad_gateway', 1])
})
