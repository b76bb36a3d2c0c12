import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import type { Entry } from '../../../src/stores/store.js'
import { openClaim, type TaskClaim } from '../../../src/idempotency/claim.js'
import { CLAIM_MARGIN_MS, settleTaskClaim } from '../../../src/idempotency/once-task.js'

const claim: TaskClaim = { kind: 'task', fingerprint: 'f', taskId: 'a', direct: false, accepted: false }
const ended = { taskId: 'a', recordKey: 'task:a', recordMs: 60_000 }

for (const others of ['writes to it', 'takes it away'] as const) {
  test(`a claim is settled at the end of its task, also when a request ${others} at the same moment`, async (t) => {
    let now = 0
    const store = new MemoryStore({ now: () => now })
    t.after(() => store.close())
    const { held } = await openClaim(store, 'key', claim, 1000)
    const replace = store.replace.bind(store)
    let tried = 0
    t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) => {
      tried++
      if (tried > 5) throw new Error('it goes on for ever')
      if (tried === 1 && others === 'takes it away') void store.delete('key')
      if (tried === 1 && others === 'writes to it') void replace('key', JSON.stringify({ ...claim, accepted: true }), held.revision, {})
      return replace(...args)
    })
    await settleTaskClaim(store, 'key', ended)
    const entry = store.get('key') as Entry | undefined
    if (others === 'takes it away') return assert.deepEqual([tried, entry], [1, undefined])
    assert.deepEqual([tried, JSON.parse(entry?.value ?? '')], [2, { ...claim, accepted: true }])
    now = 60_000 + CLAIM_MARGIN_MS - 1
    assert.ok(store.get('key'))
    now++
    assert.equal(store.get('key'), undefined)
  })
}

test('the end of a task leaves the claim of another task alone', async (t) => {
  const store = new MemoryStore()
  t.after(() => store.close())
  await openClaim(store, 'key', { ...claim, taskId: 'b' }, 1000)
  await settleTaskClaim(store, 'key', ended)
  assert.deepEqual(JSON.parse((store.get('key') as Entry).value), { ...claim, taskId: 'b' })
})
