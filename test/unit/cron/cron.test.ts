import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Cron } from 'croner'
import { cron } from '../../../adapters/cron/index.js'
import { Firings } from '../../../adapters/cron/firings.js'
import { MemoryStore } from '../../../adapters/memory/index.js'
import type { ScheduleHost } from '../../../src/tasks/definition/schedule.js'

const START = Date.parse('2026-11-26T02:59:00Z')
const HOUR = 3_600_000

/** A process with a clock that the test moves. Several may share a store. */
function processOver(store: MemoryStore, tasks: Set<string>) {
  const state = { now: START, fails: false, errors: [] as unknown[], inputs: [] as unknown[] }
  const host: ScheduleHost = {
    name: 'nightly', store, now: () => state.now, onError: (error) => { state.errors.push(error) },
    submit: async (id, input) => {
      if (state.fails) throw new Error('away')
      if (tasks.has(id)) return
      tasks.add(id)
      state.inputs.push(input)
    },
  }
  const times = new Cron('0 3 * * *', { timezone: 'UTC', paused: true })
  /** Looks at a time, and sets no timer for the next one. */
  const lookAt = async (now: number) => {
    state.now = now
    const firings = new Firings(times, (time) => ({ time }), host)
    await firings.look()
    firings.end()
  }
  return { state, lookAt }
}

describe('the firings of a schedule', () => {
  test('each is one task, with an id that tells its time', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { state, lookAt } = processOver(store, tasks)
    await lookAt(START)
    assert.deepEqual([...tasks], [], 'nothing is due')
    await lookAt(START + 60_000)
    await lookAt(START + 61_000)
    assert.deepEqual([...tasks], ['nightly.20261126T030000Z'])
    await lookAt(START + 60_000 + 24 * HOUR)
    assert.deepEqual([...tasks], ['nightly.20261126T030000Z', 'nightly.20261127T030000Z'])
    assert.deepEqual(state.inputs, [{ time: new Date(START + 60_000) }, { time: new Date(START + 60_000 + 24 * HOUR) }])
  })

  test('of several that were missed, the latest is made up for', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks).lookAt(START)
    await processOver(store, tasks).lookAt(START + 73 * HOUR)
    assert.deepEqual([...tasks], ['nightly.20261129T030000Z'])
  })

  test('the first start makes up for none', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks).lookAt(START + 5 * HOUR)
    assert.deepEqual([...tasks], [])
  })

  test('two processes at the same moment make one task', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const [one, other] = [processOver(store, tasks), processOver(store, tasks)]
    await one.lookAt(START)
    await Promise.all([one.lookAt(START + 60_000), other.lookAt(START + 60_000)])
    assert.deepEqual([...tasks], ['nightly.20261126T030000Z'])
    assert.deepEqual([...one.state.errors, ...other.state.errors], [])
  })

  test('a process that died after it had submitted leaves no second task', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks).lookAt(START)
    tasks.add('nightly.20261126T030000Z')
    await processOver(store, tasks).lookAt(START + 60_000)
    assert.equal(tasks.size, 1)
  })

  test('a clock that was wrong for a while fires nothing twice', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { lookAt } = processOver(store, tasks)
    await lookAt(START)
    await lookAt(START + 25 * HOUR)
    await lookAt(START)
    await lookAt(START + 60_000)
    await lookAt(START + 25 * HOUR)
    assert.deepEqual([...tasks], ['nightly.20261127T030000Z'])
  })

  test('an engine that is away is an error, and the firing is made up for', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { state, lookAt } = processOver(store, tasks)
    await lookAt(START)
    state.fails = true
    await lookAt(START + 60_000)
    assert.deepEqual([tasks.size, state.errors.map(String)], [0, ['Error: away']])
    state.fails = false
    await lookAt(START + 66_000)
    assert.deepEqual([...tasks], ['nightly.20261126T030000Z'])
  })
})

test('cron rejects what it cannot use', () => {
  assert.throws(() => cron('every night'), /^TypeError: cron: "every night" in UTC cannot be used: /)
  assert.throws(() => cron('0 3 31 2 *'), /no time in the future/)
  assert.throws(() => cron('0 3 * * *', { timezone: 'Europe/Wien' }), /^TypeError: cron: "0 3 \* \* \*" in Europe\/Wien cannot be used: /)
  assert.throws(() => cron('0 3 * * *', { timeZone: 'UTC' } as never), /there is no option "timeZone"; did you mean "timezone"/)
  assert.doesNotThrow(() => cron('*/10 * * * * *', { timezone: 'Europe/Vienna' }))
})
