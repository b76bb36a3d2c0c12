import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Cron } from 'croner'
import { cron } from '../../../adapters/cron/index.js'
import { Firings, latestBetween, nextAfter } from '../../../adapters/cron/firings.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { defineTask } from '../../../src/index.js'
import type { ScheduleHost } from '../../../src/tasks/definition/schedule.js'

const START = Date.parse('2026-11-26T02:59:00Z')
const HOUR = 3_600_000

/** A process with a clock that the test moves. Several may share a store. */
function processOver(store: MemoryStore, tasks: Set<string>, pattern = '0 3 * * *', timezone = 'UTC') {
  const state = { now: START, fails: false, errors: [] as unknown[], inputs: [] as unknown[] }
  const host: ScheduleHost = {
    name: 'nightly', store, now: () => state.now, onError: (error) => { state.errors.push(error) },
    submit: async (id, input) => {
      if (state.fails) throw new Error('away')
      // The last part is a secret of the schedule.
      const [, time = ''] = id.split('.')
      assert.match(id, /^nightly\.\d{8}T\d{6}Z\.[\w-]{22}$/)
      if (tasks.has(time)) return
      tasks.add(time)
      state.inputs.push(input)
    },
  }
  const times = new Cron(pattern, { timezone, paused: true })
  /** Looks at a time, and sets no timer for the next one. */
  const lookAt = async (now: number) => {
    state.now = now
    const firings = new Firings(times, (time) => ({ time }), host)
    await firings.look()
    await firings.end()
  }
  return { state, lookAt }
}

describe('the firings of a schedule', () => {
  test('are one task each, with an id that contains the time', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { state, lookAt } = processOver(store, tasks)
    await lookAt(START)
    assert.deepEqual([...tasks], [], 'nothing is due')
    await lookAt(START + 60_000)
    await lookAt(START + 61_000)
    assert.deepEqual([...tasks], ['20261126T030000Z'])
    await lookAt(START + 60_000 + 24 * HOUR)
    assert.deepEqual([...tasks], ['20261126T030000Z', '20261127T030000Z'])
    assert.deepEqual(state.inputs, [{ time: new Date(START + 60_000) }, { time: new Date(START + 60_000 + 24 * HOUR) }])
  })

  test('are caught up after a pause by the latest missed firing', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks).lookAt(START)
    await processOver(store, tasks).lookAt(START + 73 * HOUR)
    assert.deepEqual([...tasks], ['20261129T030000Z'])
  })

  test('are not caught up at the first start', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks).lookAt(START + 5 * HOUR)
    assert.deepEqual([...tasks], [])
  })

  test('make one task if two processes submit it at the same moment', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const [one, other] = [processOver(store, tasks), processOver(store, tasks)]
    await one.lookAt(START)
    await Promise.all([one.lookAt(START + 60_000), other.lookAt(START + 60_000)])
    assert.deepEqual([...tasks], ['20261126T030000Z'])
    assert.deepEqual([...one.state.errors, ...other.state.errors], [])
  })

  test('make no second task if a process died after the submit', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks).lookAt(START)
    tasks.add('20261126T030000Z')
    await processOver(store, tasks).lookAt(START + 60_000)
    assert.equal(tasks.size, 1)
  })

  test('do not repeat although a clock was wrong for a while', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { lookAt } = processOver(store, tasks)
    await lookAt(START)
    await lookAt(START + 25 * HOUR)
    await lookAt(START)
    await lookAt(START + 60_000)
    await lookAt(START + 25 * HOUR)
    assert.deepEqual([...tasks], ['20261127T030000Z', '20261126T030000Z'], 'and does not stop the schedule')
  })

  test('do not catch up on past times of a new pattern', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    await processOver(store, tasks, '0 3 1 1 *').lookAt(START)
    await processOver(store, tasks, '0 3 1 6 *').lookAt(START + HOUR)
    assert.deepEqual([...tasks], [])
  })

  test('come in February if the pattern says so, in any current month', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { state, lookAt } = processOver(store, tasks, '0 0 29 2 *')
    await lookAt(START)
    await lookAt(Date.parse('2028-03-01T00:00:00Z'))
    assert.deepEqual([[...tasks], state.errors], [['20280229T000000Z'], []])
  })

  test('are caught up after an engine was away, which is reported as an error', async () => {
    const [store, tasks] = [new MemoryStore(), new Set<string>()]
    const { state, lookAt } = processOver(store, tasks)
    await lookAt(START)
    state.fails = true
    await lookAt(START + 60_000)
    assert.deepEqual([tasks.size, state.errors.map(String)], [0, ['Error: away']])
    state.fails = false
    await lookAt(START + 66_000)
    assert.deepEqual([...tasks], ['20261126T030000Z'])
  })
})

test('the next time of a schedule is later than now on days when the clock changes', () => {
  for (const pattern of ['30 2 * * *', '*/5 * * * *', '*/10 2 * * *', '* * * * * *']) {
    const times = new Cron(pattern, { timezone: 'Europe/Vienna', paused: true })
    for (const day of ['2026-03-29', '2026-10-25']) {
      const start = Date.parse(`${day}T00:00:00Z`)
      for (let at = start; at < start + 3 * HOUR; at += 137_777) {
        const next = nextAfter(times, at) ?? 0
        assert.ok(next > at, `${pattern}: ${new Date(at).toISOString()} ${new Date(next).toISOString()}`)
        const latest = latestBetween(times, start, at)
        assert.ok(latest === undefined || (latest > start && latest <= at), pattern)
      }
    }
  }
})

test('cron rejects invalid options', () => {
  assert.throws(
    () => cron('every night'),
    /^TypeError: cron: the pattern must have five or six fields, such as '0 3 \* \* \*', not every night/,
  )
  assert.throws(() => cron('2027-01-01T00:00:00'), /five or six fields/)
  assert.throws(() => cron('0 3 * * X'), /^TypeError: cron: "0 3 \* \* X" in UTC cannot be used: /)
  assert.doesNotThrow(() => cron('@daily'))
  assert.throws(
    () => defineTask({ name: '.x', schedule: cron('@daily'), run: () => ({}) }),
    /must not begin with a dot/,
  )
  assert.throws(() => cron('0 3 31 2 *'), /no time in the future/)
  assert.throws(
    () => cron('0 3 * * *', { timezone: 'Europe/Wien' }),
    /^TypeError: cron: "0 3 \* \* \*" in Europe\/Wien cannot be used: /,
  )
  assert.throws(
    () => cron('0 3 * * *', { timeZone: 'UTC' } as never),
    /there is no option "timeZone"; did you mean "timezone"/,
  )
  assert.doesNotThrow(() => cron('*/10 * * * * *', { timezone: 'Europe/Vienna' }))
})
