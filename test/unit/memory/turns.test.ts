import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask } from '../../../src/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { systemClock } from '../../../src/runtime/timers.js'

const WORK_ON_REQUESTS_MS = 20

/** Returns in how many turns of the event loop 64 tasks have run, if `costs` is the time of each run. */
async function turnsOf(test: TestContext, costs: (run: number) => number): Promise<number> {
  let now = 0
  let runs = 0
  let turns = 0
  test.mock.method(systemClock, 'now', () => now)
  const definition = defineTask({ name: 'short', run: () => { now += costs(runs++) } })
  const tasks = createTasks({ ...memory(), definitions: [definition] })
  await Promise.all(Array.from({ length: 64 }, () => tasks.submit(definition, undefined)))
  now += WORK_ON_REQUESTS_MS
  while (runs < 64) {
    await new Promise((resolve) => { setImmediate(resolve) })
    turns++
  }
  await tasks.close()
  return turns
}

describe('runs of one turn of the event loop', () => {
  test('64 short tasks run in one turn', async (context) => {
    assert.equal(await turnsOf(context, () => 0.01), 1)
  })

  test('a pause of the process in a short run does not delay the other runs to later turns', async (context) => {
    assert.equal(await turnsOf(context, (run) => run === 3 ? 200 : 0.01), 1)
  })

  test('long runs leave turns to requests', async (context) => {
    const turns = await turnsOf(context, () => 10)
    assert.ok(turns >= 5, `64 runs of 10 ms took ${turns} turns`)
  })
})
