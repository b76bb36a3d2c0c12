import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTasks, defineTask, jsonSchema } from 'longhaul'
import { memory } from 'longhaul/memory'
import { checkInputs } from '../../soak/check-keys.js'
import { ofKind, type Recorded } from '../../soak/history.js'
import { recorded } from '../../soak/recorded-engine.js'

test('the history has the submissions with a key, the begin and the changes of a run', async () => {
  const events: Recorded[] = []
  const { engine, store } = memory()
  const work = defineTask({
    name: 'work', checkpoint: jsonSchema<number>({ type: 'integer' }),
    run: async (input: { n: number }, { checkpoint }) => {
      await checkpoint.save(input.n)
      return { message: 'done' }
    },
  })
  const tasks = createTasks({
    engine: recorded(engine, (event) => { events.push(event) }), store, definitions: [work],
  })
  const options = { owner: 'ann', unique: 'k', ifExists: 'replace' } as const
  await tasks.pause('default')
  await tasks.submit(work, { n: 1 }, options)
  const task = await tasks.submit(work, { n: 2 }, options)
  await tasks.resume('default')
  await task.wait({ timeoutMs: 60_000 })
  await tasks.close({ drainMs: 0 })
  assert.deepEqual(
    ofKind(events, 'submission').map(({ n, outcome, version }) => [n, outcome, version]),
    [[1, 'created', 1], [2, 'replaced', 2]],
  )
  const [begin] = ofKind(events, 'begin')
  assert.deepEqual(
    [begin?.task, begin?.n, begin?.run, begin?.version, begin?.owner], [task.taskId, 2, 1, 3, 'ann'],
  )
  const writes = ofKind(events, 'write')
  assert.ok(writes.every(({ lease, outcome }) => lease === begin?.lease && outcome === 'changed'))
  assert.equal(writes.filter(({ checkpoint }) => checkpoint !== undefined).length, 1)
  assert.deepEqual(checkInputs(events), [])
})
