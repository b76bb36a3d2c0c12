import assert from 'node:assert/strict'
import type { Cases } from './runner.js'
import type { StoreContext } from './store-context.js'
import { together } from './wait.js'

const CROWD = 50

/** Tests of atomicity with many concurrent callers. Half of them use the second store. */
export const races: Cases<StoreContext> = {
  'one of many creates wins, and all others get its entry': async (context) => {
    await context.created(context.key('expired'), 'old', context.short)
    await context.outlive(context.short)
    for (const key of [context.key(), context.key('expired')]) {
      const outcomes = await together(CROWD, (i) => context.side(i).create(key, `writer ${i}`, context.later))
      const winners = outcomes.flatMap((outcome, i) => (
        outcome.created ? [{ value: `writer ${i}`, revision: outcome.revision }] : []
      ))
      assert.equal(winners.length, 1, `${winners.length} creates won`)
      for (const outcome of outcomes) {
        if (!outcome.created) assert.deepEqual({ ...outcome.entry }, winners[0])
      }
      assert.equal(await context.value(key), winners[0]?.value)
    }
  },

  'one of many replaces with one revision wins': async (context) => {
    const revision = await context.created(context.key(), 'start')
    const outcomes = await together(CROWD, (i) => (
      context.side(i).replace(context.key(), `writer ${i}`, revision, context.later)
    ))
    const winners = outcomes.flatMap((outcome, i) => outcome.replaced ? [`writer ${i}`] : [])
    assert.equal(winners.length, 1, `${winners.length} replaces won`)
    for (const outcome of outcomes) {
      if (!outcome.replaced) assert.equal(outcome.entry?.value, winners[0])
    }
    assert.equal(await context.value(context.key()), winners[0])
  },

  'one of many deletes returns true': async (context) => {
    const revision = await context.created(context.key('a'), 'x')
    await context.created(context.key('b'), 'x')
    const named = await together(CROWD, (i) => context.side(i).delete(context.key('a'), revision))
    assert.equal(named.filter(Boolean).length, 1)
    const unnamed = await together(CROWD, (i) => context.side(i).delete(context.key('b')))
    assert.equal(unnamed.filter(Boolean).length, 1)
  },

  'one of a delete and a replace with one revision wins': async (context) => {
    for (let round = 0; round < 10; round++) {
      const key = context.key(`${round}`)
      const revision = await context.created(key, 'start')
      const outcomes = await together(10, async (i) => i % 2 === 0
        ? await context.side(i >> 1).delete(key, revision)
        : (await context.side(i >> 1).replace(key, 'next', revision, context.later)).replaced)
      assert.equal(outcomes.filter(Boolean).length, 1)
      assert.equal(await context.value(key), outcomes.indexOf(true) % 2 === 0 ? undefined : 'next')
    }
  },

  'each of many increments counts once': async (context) => {
    const values = await together(CROWD, (i) => context.count(context.key(), 1, context.side(i)))
    const expected = Array.from({ length: CROWD }, (_, i) => i + 1)
    assert.deepEqual(values.sort((a, b) => a - b), expected)
  },

  'one of many first increments sets the lifetime for all': async (context) => {
    const lives = Array.from({ length: CROWD }, (_, i) => context.later.ttlMs * (i + 1))
    const counters = await together(CROWD, (i) => (
      context.side(i).increment(context.key(), 1, { ttlMs: lives[i] ?? 0 })
    ))
    const first = lives[counters.findIndex((counter) => counter.value === 1)] ?? 0
    for (const { resetMs } of counters) {
      const isFirst = resetMs <= first && resetMs > first - context.later.ttlMs / 2
      assert.ok(isFirst, `resetMs is ${resetMs}, not ${first}`)
    }
  },
}

/** Tests of counters without concurrent callers. */
export const counters: Cases<StoreContext> = {
  'a counter starts at 0 and adds positive and negative numbers': async (context) => {
    const values: number[] = []
    for (const by of [-3, 4, 2, -5, 0, 1_000_000_000_000]) {
      values.push(await context.count(context.key(), by))
    }
    assert.deepEqual(values, [-3, 1, 3, -2, -2, 999_999_999_998])
  },

  'the first increment sets the lifetime, and the first one after the expiry sets it again': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      for (const [n, ttlMs] of [life.ttlMs, life.ttlMs + 600_000, 1].entries()) {
        const { value, resetMs } = await context.store.increment(key, 1, { ttlMs })
        assert.equal(value, n + 1)
        assert.ok(resetMs > 0 && resetMs <= life.ttlMs, `resetMs is ${resetMs} of ${life.ttlMs}`)
      }
    })
    await context.outlive(life)
    const { value, resetMs } = await context.store.increment(key, 2, context.later)
    assert.equal(value, 2, 'the counter outlived its expiry')
    const isNew = resetMs > context.later.ttlMs / 2 && resetMs <= context.later.ttlMs
    assert.ok(isNew, `resetMs is ${resetMs}`)
  },

  'a counter with a negative lifetime expires at once': async (context) => {
    assert.equal((await context.store.increment(context.key(), 4, { ttlMs: -1000 })).value, 4)
    await context.outlive({ ttlMs: 1 })
    assert.equal(await context.count(context.key()), 1)
  },

  'counters and entries have separate keys': async (context) => {
    await context.count(context.key(), 7)
    assert.equal(await context.store.get(context.key()), undefined)
    await context.created(context.key(), 'entry')
    assert.equal(await context.count(context.key()), 8)
    assert.equal(await context.value(context.key()), 'entry')
    assert.equal(await context.store.delete(context.key()), true)
    assert.equal(await context.count(context.key()), 9)
  },
}
