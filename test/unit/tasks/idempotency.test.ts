import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import type { Entry } from '../../../src/stores/store.js'
import { CLAIM_MARGIN_MS, openClaim, settleClaim, type Claim } from '../../../src/tasks/idempotency.js'

for (const others of ['writes to it', 'takes it away'] as const) {
  test(`a claim is settled at the end of its task, also when a request ${others} at the same moment`, async (t) => {
    const store = new MemoryStore()
    t.after(() => store.close())
    const claim: Claim = { kind: 'task', fingerprint: 'f', taskId: 'a', accepted: false }
    const { held } = await openClaim(store, 'key', claim, Date.now() + 1000)
    const replace = store.replace.bind(store)
    let tried = 0
    t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) => {
      tried++
      if (tried > 5) throw new Error('it goes on for ever')
      if (tried === 1 && others === 'takes it away') void store.delete('key')
      if (tried === 1 && others === 'writes to it') void replace('key', JSON.stringify({ ...claim, accepted: true }), held.revision, { expiresAt: held.expiresAt })
      return replace(...args)
    })
    const until = Date.now() + 60_000
    await settleClaim(store, 'key', until)
    const entry = store.get('key') as Entry | undefined
    if (others === 'takes it away') assert.deepEqual([tried, entry], [1, undefined])
    else assert.deepEqual([tried, entry?.expiresAt, JSON.parse(entry?.value ?? '')], [2, until + CLAIM_MARGIN_MS, { ...claim, accepted: true }])
  })
}
