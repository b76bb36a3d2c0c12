import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'
import { together } from './waiting.js'

const CROWD = 50

/** Atomicity, tried by many at once; half of them through the second store, when there is one. */
export const races: Cases<StoreBench> = {
  'of many creates one wins, and everybody else is given what it wrote': async (bench) => {
    const outcomes = await together(CROWD, (i) => side(bench, i).create(bench.key(), `writer ${i}`, bench.later))
    const winners = outcomes.flatMap((outcome, i) => outcome.created ? [{ i, revision: outcome.revision }] : [])
    assert.equal(winners.length, 1, `${winners.length} creates won`)
    const value = `writer ${winners[0]?.i}`
    for (const outcome of outcomes) {
      if (outcome.created) continue
      assert.equal(outcome.entry.value, value)
      assert.equal(outcome.entry.revision, winners[0]?.revision)
    }
    assert.equal(await bench.value(bench.key()), value)
  },

  'of many replaces with one revision one wins': async (bench) => {
    const revision = await bench.created(bench.key(), 'start')
    const outcomes = await together(CROWD, (i) => side(bench, i).replace(bench.key(), `writer ${i}`, revision, bench.later))
    const winners = outcomes.flatMap((outcome, i) => outcome.replaced ? [i] : [])
    assert.equal(winners.length, 1, `${winners.length} replaces won`)
    for (const outcome of outcomes) if (!outcome.replaced) assert.equal(outcome.entry?.value, `writer ${winners[0]}`)
    assert.equal(await bench.value(bench.key()), `writer ${winners[0]}`)
  },

  'no update is lost when everybody reads, replaces and tries again': async (bench) => {
    await bench.created(bench.key(), '0')
    await together(12, async (i) => {
      const store = side(bench, i)
      for (;;) {
        const entry = await store.get(bench.key())
        assert.ok(entry, 'the entry is gone')
        const outcome = await store.replace(bench.key(), String(Number(entry.value) + 1), entry.revision, bench.later)
        if (outcome.replaced) return
      }
    })
    assert.equal(await bench.value(bench.key()), '12')
  },

  'of many deletes one removes': async (bench) => {
    const revision = await bench.created(bench.key('a'), 'x')
    await bench.created(bench.key('b'), 'x')
    const named = await together(CROWD, (i) => side(bench, i).delete(bench.key('a'), revision))
    assert.equal(named.filter(Boolean).length, 1)
    const unnamed = await together(CROWD, (i) => side(bench, i).delete(bench.key('b')))
    assert.equal(unnamed.filter(Boolean).length, 1)
  },

  'of delete and replace with one revision one wins': async (bench) => {
    for (let round = 0; round < 10; round++) {
      const key = bench.key(`${round}`)
      const revision = await bench.created(key, 'start')
      const outcomes = await together(10, async (i) => i % 2 === 0
        ? await side(bench, i >> 1).delete(key, revision)
        : (await side(bench, i >> 1).replace(key, 'next', revision, bench.later)).replaced)
      assert.equal(outcomes.filter(Boolean).length, 1)
      assert.equal(await bench.value(key), outcomes.indexOf(true) % 2 === 0 ? undefined : 'next')
    }
  },

  'of many creates after the expiry one wins': async (bench) => {
    await bench.store.create(bench.key(), 'old', bench.soon)
    await bench.outlive(bench.soon)
    const outcomes = await together(CROWD, (i) => side(bench, i).create(bench.key(), `writer ${i}`, bench.later))
    assert.equal(outcomes.filter((outcome) => outcome.created).length, 1)
    for (const outcome of outcomes) if (!outcome.created) assert.notEqual(outcome.entry.value, 'old')
  },

  'many increments all count': async (bench) => {
    const counters = await together(CROWD, (i) => side(bench, i).increment(bench.key(), 1, bench.later))
    const values = counters.map((counter) => counter.value).sort((a, b) => a - b)
    assert.deepEqual(values, Array.from({ length: CROWD }, (_, i) => i + 1))
  },

  'of many first increments one sets the lifetime for all': async (bench) => {
    const lives = Array.from({ length: CROWD }, (_, i) => bench.later.ttlMs * (i + 1))
    const counters = await together(CROWD, (i) => side(bench, i).increment(bench.key(), 1, { ttlMs: lives[i] ?? 0 }))
    const first = lives[counters.findIndex((counter) => counter.value === 1)] ?? 0
    for (const { resetMs } of counters) {
      assert.ok(resetMs <= first && resetMs > first - bench.later.ttlMs / 2, `resetMs is ${resetMs}, not ${first}`)
    }
  }
}

function side(bench: StoreBench, index: number): StoreBench['store'] {
  return index % 2 === 0 ? bench.store : bench.second
}
