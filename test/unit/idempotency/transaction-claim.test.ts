import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import { claimInTransaction } from '../../../src/idempotency/transaction-claim.js'
import type { TransactionStore } from '../../../src/stores/store.js'

const options = { key: 'idem:key', direct: false, keptMs: 60_000, recordKey: (id: string) => `task:${id}` }

test('a claim that commits between the read and the write is refused if it is of another request', async () => {
  const memory = new MemoryStore()
  const claim = { kind: 'task', fingerprint: 'other', taskId: 'one', direct: false, accepted: true }
  await memory.create(options.key, JSON.stringify(claim), { ttlMs: 60_000 })
  let isFirst = true
  const store = {
    acquire: async () => true,
    get: async (key: string) => {
      if (!isFirst) return memory.get(key)
      isFirst = false
      return undefined
    },
    create: memory.create.bind(memory),
  } as unknown as TransactionStore
  await assert.rejects(claimInTransaction(store, { ...options, fingerprint: 'own' }, 'two'), {
    code: 'idempotency_key_reused',
  })
  isFirst = true
  const found = await claimInTransaction(store, { ...options, fingerprint: 'other' }, 'two')
  assert.deepEqual(found, claim)
})
