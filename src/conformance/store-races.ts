import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'
import { together } from './waiting.js'

const CROWD = 50

/**
 * Tests of atomicity with many concurrent callers. Half of them use the second store, if there is
 * one.
 */
export const races: Cases<StoreContext> = {
  'of many creates one wins, and everybody else is given what it wrote': async (context) => {
    const outcomes = await together(CROWD, (i) => side(context, i).create(context.key(), `writer ${i}`, context.later))
    const winners = outcomes.flatMap((outcome, i) =>
      outcome.created ? [{ i, revision: outcome.revision }] : [],
    )
    assert.equal(winners.length, 1, `${winners.length} creates won`)
    const value = `writer ${winners[0]?.i}`
    for (const outcome of outcomes) {
      if (outcome.created) continue
      assert.equal(outcome.entry.value, value)
      assert.equal(outcome.entry.revision, winners[0]?.revision)
    }
    assert.equal(await context.value(context.key()), value)
  },

  'of many replaces with one revision one wins': async (context) => {
    const revision = await context.created(context.key(), 'start')
    const outcomes = await together(CROWD, (i) =>
      side(context, i).replace(context.key(), `writer ${i}`, revision, context.later),
    )
    const winners = outcomes.flatMap((outcome, i) => outcome.replaced ? [i] : [])
    assert.equal(winners.length, 1, `${winners.length} replaces won`)
    for (const outcome of outcomes) {
      if (!outcome.replaced) assert.equal(outcome.entry?.value, `writer ${winners[0]}`)
    }
    assert.equal(await context.value(context.key()), `writer ${winners[0]}`)
  },

  'no update is lost when everybody reads, replaces and tries again': async (context) => {
    await context.created(context.key(), '0')
    await together(12, async (i) => {
      const store = side(context, i)
      for (;;) {
        const entry = await store.get(context.key())
        assert.ok(entry, 'the entry is gone')
        const outcome = await store.replace(
          context.key(),
          String(Number(entry.value) + 1),
          entry.revision,
          context.later,
        )
        if (outcome.replaced) return
      }
    })
    assert.equal(await context.value(context.key()), '12')
  },

  'of many deletes one removes': async (context) => {
    const revision = await context.created(context.key('a'), 'x')
    await context.created(context.key('b'), 'x')
    const named = await together(CROWD, (i) => side(context, i).delete(context.key('a'), revision))
    assert.equal(named.filter(Boolean).length, 1)
    const unnamed = await together(CROWD, (i) => side(context, i).delete(context.key('b')))
    assert.equal(unnamed.filter(Boolean).length, 1)
  },

  'of delete and replace with one revision one wins': async (context) => {
    for (let round = 0; round < 10; round++) {
      const key = context.key(`${round}`)
      const revision = await context.created(key, 'start')
      const outcomes = await together(10, async (i) => i % 2 === 0
        ? await side(context, i >> 1).delete(key, revision)
        : (await side(context, i >> 1).replace(key, 'next', revision, context.later)).replaced)
      assert.equal(outcomes.filter(Boolean).length, 1)
      assert.equal(await context.value(key), outcomes.indexOf(true) % 2 === 0 ? undefined : 'next')
    }
  },

  'of many creates after the expiry one wins': async (context) => {
    await context.store.create(context.key(), 'old', context.soon)
    await context.outlive(context.soon)
    const outcomes = await together(CROWD, (i) =>
      side(context, i).create(context.key(), `writer ${i}`, context.later),
    )
    assert.equal(outcomes.filter((outcome) => outcome.created).length, 1)
    for (const outcome of outcomes) {
      if (!outcome.created) assert.notEqual(outcome.entry.value, 'old')
    }
  },

  'many increments all count': async (context) => {
    const counters = await together(CROWD, (i) =>
      side(context, i).increment(context.key(), 1, context.later),
    )
    const values = counters.map((counter) => counter.value).sort((a, b) => a - b)
    assert.deepEqual(values, Array.from({ length: CROWD }, (_, i) => i + 1))
  },

  'of many first increments one sets the lifetime for all': async (context) => {
    const lives = Array.from({ length: CROWD }, (_, i) => context.later.ttlMs * (i + 1))
    const counters = await together(CROWD, (i) =>
      side(context, i).increment(context.key(), 1, { ttlMs: lives[i] ?? 0 }),
    )
    const first = lives[counters.findIndex((counter) => counter.value === 1)] ?? 0
    for (const { resetMs } of counters) {
      assert.ok(
        resetMs <= first && resetMs > first - context.later.ttlMs / 2,
        `resetMs is ${resetMs}, not ${first}`,
      )
    }
  }
}

function side(context: StoreContext, index: number): StoreContext['store'] {
  return index % 2 === 0 ? context.store : context.second
}
