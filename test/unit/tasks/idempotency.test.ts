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
    const { held } = await openClaim(store, 'key', claim, 1000)
    const replace = store.replace.bind(store)
    let tried = 0
    const replaced: Parameters<typeof replace>[] = []
    t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) => {
      tried++
      replaced.push(args)
      if (tried > 5) throw new Error('it goes on for ever')
      if (tried === 1 && others === 'takes it away') void store.delete('key')
      if (tried === 1 && others === 'writes to it') void replace('key', JSON.stringify({ ...claim, accepted: true }), held.revision, {})
      return replace(...args)
    })
    await settleClaim(store, 'key', 60_000)
    const options = replaced.at(-1)?.[3]
    const entry = store.get('key') as Entry | undefined
    if (others === 'takes it away') assert.deepEqual([tried, entry], [1, undefined])
    else assert.deepEqual([tried, options?.ttlMs, JSON.parse(entry?.value ?? '')], [2, 60_000 + CLAIM_MARGIN_MS, { ...claim, accepted: true }])
  })
}
