import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import { KeyedProgress } from '../../../src/idempotency/progress.js'

/** A store in which one owner has more than its share after ten entries. */
async function flooded(store: MemoryStore): Promise<void> {
  for (let n = 0; n < 20; n++) await store.create(`answer-${n}`, 'x'.repeat(1000), { ttlMs: 60_000, evictable: true, owner: 'ann' })
}

test('an owner above its share keeps the progress of unfinished work, and loses that of complete work', async (t) => {
  const store = new MemoryStore({ maxEntriesPerOwner: 10 })
  t.after(() => store.close())
  const progress = (key: string) => new KeyedProgress(store, key, { ttlMs: 60_000, owner: 'ann' })
  await progress('unfinished').save('half', false)
  await progress('complete').save('all', true)
  await flooded(store)
  assert.equal(await progress('unfinished').read(), 'half')
  assert.equal(await progress('complete').read(), undefined)
})
