import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isStoreUnavailable, type Entry } from '../../../src/stores/store.js'
import { MemoryStore } from '../../../adapters/memory/store.js'

/** The contract, as slow and obvious as can be: a list that is searched, and an expiry looked at every time. */
class Model {
  time = 1_000_000
  entries: { key: string, value: string, revision: string, expiresAt: number }[] = []
  counters: { key: string, value: number, expiresAt: number }[] = []
  used = new Set<string>()

  live(key: string) {
    return this.entries.find((entry) => entry.key === key && entry.expiresAt > this.time)
  }

  view(key: string): Entry | undefined {
    const entry = this.live(key)
    return entry && { value: entry.value, revision: entry.revision }
  }

  remove(key: string) {
    this.entries = this.entries.filter((entry) => entry.key !== key)
  }

  wrote(key: string, value: string, revision: string, expiresAt: number) {
    assert.ok(!this.used.has(`${key} ${revision}`), `the revision ${revision} came twice for ${key}`)
    this.used.add(`${key} ${revision}`)
    this.remove(key)
    this.entries.push({ key, value, revision, expiresAt })
  }

  increment(key: string, by: number, expiresAt: number) {
    const there = this.counters.find((counter) => counter.key === key && counter.expiresAt > this.time)
    if (there) {
      there.value += by
      return { value: there.value, resetMs: there.expiresAt - this.time }
    }
    this.counters = this.counters.filter((counter) => counter.key !== key)
    this.counters.push({ key, value: by, expiresAt })
    return { value: by, resetMs: Math.max(expiresAt - this.time, 0) }
  }
}

interface Real { store: MemoryStore, old: string[] }
type Command = fc.AsyncCommand<Model, Real>

const command = (name: string, run: (model: Model, real: Real) => Promise<void>): Command =>
  ({ check: () => true, run, toString: () => name })

const key = fc.constantFrom('a', 'b', 'c', '__proto__')
const value = fc.constantFrom('', 'x', 'y', 'longer text')
const life = fc.integer({ min: -5, max: 40 })
const evictable = fc.boolean()
/** Which revision a caller comes with: the live one, an old one of any key, or none that ever was. */
const whose = fc.constantFrom('live', 'live', 'live', 'old', 'never')

const revisionOf = (model: Model, real: Real, at: string, kind: string): string =>
  kind === 'never' ? 'x' : kind === 'old' ? real.old[0] ?? 'x' : model.live(at)?.revision ?? 'x'

const commands = [
  fc.tuple(key).map(([at]) =>
    command(`get ${at}`, async (model, real) => {
      assert.deepEqual(await real.store.get(at), model.view(at))
    }),
  ),
  fc.tuple(key, value, life, evictable).map(([at, text, ms, free]) =>
    command(`create ${at} ${text} ${ms}`, async (model, real) => {
      const outcome = await real.store.create(at, text, { ttlMs: ms, evictable: free })
      const there = model.view(at)
      if (there) return assert.deepEqual(outcome, { created: false, entry: there })
      assert.ok(outcome.created, 'nothing was created')
      model.wrote(at, text, outcome.revision, model.time + ms)
    }),
  ),
  fc.tuple(key, value, whose, fc.option(life, { nil: undefined }), evictable).map(([at, text, kind, ms, free]) =>
    command(`replace ${at} ${text} ${kind} ${ms}`, async (model, real) => {
      const revision = revisionOf(model, real, at, kind)
      const outcome = await real.store.replace(at, text, revision, { ttlMs: ms, evictable: free })
      const there = model.live(at)
      if (there?.revision !== revision) return assert.deepEqual(outcome, { replaced: false, entry: model.view(at) })
      assert.ok(outcome.replaced, 'nothing was replaced')
      real.old.unshift(revision)
      model.wrote(at, text, outcome.revision, ms === undefined ? there.expiresAt : model.time + ms)
    }),
  ),
  fc.tuple(key, fc.option(whose)).map(([at, kind]) =>
    command(`delete ${at} ${kind}`, async (model, real) => {
      const revision = kind === null ? undefined : revisionOf(model, real, at, kind)
      const there = model.live(at)
      const removed = there !== undefined && (revision === undefined || revision === there.revision)
      assert.equal(await real.store.delete(at, revision), removed)
      if (!removed) return
      real.old.unshift(there.revision)
      model.remove(at)
    }),
  ),
  fc.tuple(key, fc.integer({ min: -3, max: 3 }), life).map(([at, by, ms]) =>
    command(`increment ${at} ${by} ${ms}`, async (model, real) => {
      const expiresAt = model.time + ms
      assert.deepEqual(await real.store.increment(at, by, { ttlMs: ms }), model.increment(at, by, expiresAt))
    }),
  ),
  fc.integer({ min: 0, max: 25 }).map((ms) =>
    command(`wait ${ms}`, async (model) => {
      model.time += ms
    }),
  ),
]

describe('MemoryStore beside a model of the contract', () => {
  test('has the outcomes of the contract for any sequence of calls', async () => {
    await fc.assert(fc.asyncProperty(fc.commands(commands, { maxCommands: 60 }), async (sequence) => {
      const model = new Model()
      const store = new MemoryStore({ now: () => model.time })
      try {
        await fc.asyncModelRun(() => ({ model, real: { store, old: [] } }), sequence)
      } finally {
        await store.close()
      }
    }), { numRuns: 400 })
  })

  test('keeps live pinned entries and its limits with little space, and rejects as full only if it is full', async () => {
    const write = fc.record({
      at: fc.integer({ min: 0, max: 11 }),
      size: fc.integer({ min: 0, max: 900 }),
      life: fc.integer({ min: 1, max: 30 }),
      evictable: fc.boolean(),
      verb: fc.constantFrom('create', 'replace', 'delete'),
      wait: fc.integer({ min: 0, max: 3 }),
    })
    await fc.assert(fc.asyncProperty(fc.array(write, { maxLength: 80 }), async (writes) => {
      let time = 1000
      const maxEntries = 5
      const maxBytes = 2500
      const store = new MemoryStore({ maxEntries, maxBytes, now: () => time })
      const pinned = new Map<string, { value: string, revision: string, expiresAt: number }>()
      const revisions = new Map<string, string>()
      for (const { at, size, life: ms, evictable: free, verb, wait } of writes) {
        time += wait
        for (const [name, entry] of pinned) if (entry.expiresAt <= time) pinned.delete(name)
        const name = `k${at}`
        const text = 'x'.repeat(size)
        const expiresAt = time + ms
        // The estimate of entries.ts: 256 beside the texts.
        const need = 256 + name.length + size
        const others = [...pinned].filter(([other]) => other !== name)
        const used = others.reduce((sum, [other, entry]) => sum + 256 + other.length + entry.value.length, 0)
        const fits = others.length < maxEntries && used + need <= maxBytes
        let revision: string | undefined
        try {
          if (verb === 'delete') {
            await store.delete(name)
            pinned.delete(name)
          } else if (verb === 'create') {
            const outcome = await store.create(name, text, { ttlMs: ms, evictable: free })
            if (outcome.created) revision = outcome.revision
            else
              assert.ok(!pinned.has(name) || outcome.entry.value === pinned.get(name)?.value, 'another value is there')
          } else {
            const outcome = await store.replace(name, text, revisions.get(name) ?? 'none', {
              ttlMs: ms,
              evictable: free,
            })
            if (outcome.replaced) revision = outcome.revision
            else assert.ok(!pinned.has(name), 'a pinned entry was not replaced')
          }
          if (revision !== undefined) {
            assert.ok(fits, 'a write was taken for which there was no room')
            revisions.set(name, revision)
            pinned.delete(name)
            if (!free) pinned.set(name, { value: text, revision, expiresAt })
          }
        } catch (error) {
          if (!isStoreUnavailable(error)) throw error
          assert.equal(error.reason, 'full')
          assert.ok(!fits, 'full was said although there was room')
        }
        const usage = store.usage()
        assert.ok(usage.entries <= maxEntries && usage.bytes <= maxBytes, JSON.stringify(usage))
        for (const [held, { value, revision }] of pinned)
          assert.deepEqual(await store.get(held), { value, revision }, `${held} went early`)
      }
      await store.close()
    }), { numRuns: 400 })
  })

  test('keeps entries that are not evictable and its limits with little space', async () => {
    const write = fc.record({
      at: fc.integer({ min: 0, max: 7 }), size: fc.integer({ min: 0, max: 900 }), life: fc.integer({ min: 1, max: 60 }),
      how: fc.boolean(),
      verb: fc.constantFrom('create', 'create', 'replace', 'get', 'delete'), wait: fc.integer({ min: 0, max: 3 }),
    })
    type Known = { readonly how: boolean, readonly expiresAt: number, readonly need: number }
    await fc.assert(fc.asyncProperty(fc.array(write, { maxLength: 120 }), async (writes) => {
      let time = 1000
      const [maxEntries, maxBytes] = [6, 5000]
      const store = new MemoryStore({ maxEntries, maxBytes, now: () => time })
      const known = new Map<number, Known>()
      const held = (at: number) => store.get(`k${at}`) as Entry | undefined
      for (const { at, size, life: ms, how, verb, wait } of writes) {
        time += wait
        for (const [key, { expiresAt }] of known) if (expiresAt <= time) known.delete(key)
        const name = `k${at}`
        const options = { ttlMs: ms, evictable: how }
        const need = 256 + name.length + size
        let isWritten = false
        try {
          if (verb === 'delete') {
            await store.delete(name)
            known.delete(at)
          } else if (verb === 'create') isWritten = (await store.create(name, 'x'.repeat(size), options)).created
          else if (verb === 'replace')
            isWritten = (await store.replace(name, 'x'.repeat(size), held(at)?.revision ?? 'none', options)).replaced
          else held(at)
        } catch (error) {
          if (!isStoreUnavailable(error)) throw error
          const others = [...known].filter(([other, { how }]) => other !== at && !how)
          const used = others.reduce((sum, [, other]) => sum + other.need, 0)
          assert.ok(others.length >= maxEntries || used + need > maxBytes, 'full was said although there was room')
        }
        if (isWritten) known.set(at, { how, expiresAt: time + ms, need })
        const usage = store.usage()
        assert.ok(usage.entries <= maxEntries && usage.bytes <= maxBytes, JSON.stringify(usage))
        const gone = [...known].filter(([key]) => held(key) === undefined)
        for (const [key, { how: isEvictable }] of gone) {
          assert.ok(isEvictable, `k${key} is pinned and went early`)
          known.delete(key)
        }
      }
      // A read drops what has expired.
      for (let key = 0; key < 8; key++) if (held(key)) await store.delete(`k${key}`)
      assert.deepEqual(store.usage(), { entries: 0, pinned: 0, bytes: 0, counters: 0, watches: 0 })
      await store.close()
    }), { numRuns: 500 })
  })
})
