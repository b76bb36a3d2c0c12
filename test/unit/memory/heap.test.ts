import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MemoryStore } from '../../../adapters/memory/store.js'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heap(): number {
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

/** Bytes for each of `count` entries that `write` puts into a fresh store, and what the store thinks. */
async function cost(
  count: number,
  write: (store: MemoryStore, index: number) => Promise<unknown>,
): Promise<{ real: number; estimate: number }> {
  const store = new MemoryStore({ maxBytes: 2 ** 32 })
  const before = heap()
  for (let i = 0; i < count; i++) await write(store, i)
  const real = (heap() - before) / count
  const estimate = store.usage().bytes / count
  await store.close()
  return { real, estimate }
}

const ttlMs = 3_600_000
const record = (i: number) =>
  JSON.stringify({ id: `task-${i}`.padEnd(22, '0'), state: 'completed', result: { message: 'done' } }).padEnd(300)

describe('the bytes that MemoryStore holds', () => {
  test('are less than 250 for a final task in addition to its key and value, and no more than its estimate', async () => {
    // Just above and just below a power of two, where a Map has just grown and is about to.
    for (const count of [70_000, 130_000]) {
      const { real, estimate } = await cost(count, async (store, i) => {
        const key = `task:${String(i).padStart(22, '0')}`
        const outcome = await store.create(key, record(i), { ttlMs })
        if (outcome.created) await store.replace(key, record(i), outcome.revision, { ttlMs, evictable: true })
      })
      const beside = real - 300 - 27
      assert.ok(beside < 250, `${beside} bytes beside the texts, ${count} entries`)
      assert.ok(estimate >= real, `counted as ${estimate}, takes ${real}`)
    }
  })

  test('do not include larger texts from which keys and values were cut', async () => {
    const { real } = await cost(5000, async (store, i) => {
      const body = JSON.stringify({ id: String(i).padStart(30, '0'), pad: 'x'.repeat(5000) })
      await store.create(body.slice(7, 37), body.slice(0, 60), { ttlMs })
      await store.increment(body.slice(7, 37), 1, { ttlMs })
      await store.watch(body.slice(7, 37), () => undefined)
    })
    assert.ok(real < 2000, `${real} bytes for an entry of 90 characters, a counter and a watch`)
  })
})
