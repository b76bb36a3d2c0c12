// One entry that several processes change, on a store that loses replies, delays calls and evicts entries.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { isStoreUnavailable, StoreUnavailableError, type Store } from '../../../src/stores/store.js'
import { StoredRecord, UNCHANGED, type RecordKind } from '../../../src/stores/stored-record.js'
import { Spy, SpyStore } from '../kit/tasks.js'

const KEY = 'record'
const KEPT = { ttlMs: 60_000 }

/** Tokens of the changes that were made. */
type Tokens = readonly string[]

const TOKENS: RecordKind<Tokens> = { options: () => KEPT }

function open(store: Store, kind = TOKENS): StoredRecord<Tokens> {
  return new StoredRecord(store, KEY, kind)
}

/** Adds a token, unless an earlier try has. */
function adding(token: string): (tokens?: Tokens) => Tokens | typeof UNCHANGED {
  return (tokens = []) => tokens.includes(token) ? UNCHANGED : [...tokens, token]
}

/** Repeats a call that the store fails. */
async function stubbornly(work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isStoreUnavailable(error)) throw error
    }
  }
}

type Fault = 'none' | 'before' | 'after' | 'resent' | 'late'
const FAULTS: readonly Fault[] = ['none', 'before', 'after', 'resent', 'late']

/** A connection to a store, whose first calls have these faults. */
function faulty(store: Store, faults: readonly Fault[]): Store {
  let calls = 0
  const through = async <T>(work: () => T | Promise<T>): Promise<T> => {
    const fault = faults[calls++]
    if (fault === 'before') throw new StoreUnavailableError('The call was not made')
    if (fault === 'late') await new Promise(setImmediate)
    // A client that connects again sends a call again whose reply was lost.
    if (fault === 'resent') await work()
    const outcome = await work()
    await new Promise(setImmediate)
    if (fault === 'after') throw new StoreUnavailableError('The reply was lost')
    return outcome
  }
  return {
    shared: true,
    get: (key) => through(() => store.get(key)),
    create: (key, value, options) => through(() => store.create(key, value, options)),
    replace: (key, value, revision, options) => (
      through(() => store.replace(key, value, revision, options))
    ),
    delete: (key, revision) => through(() => store.delete(key, revision)),
    increment: (key, by, options) => store.increment(key, by, options),
    watch: (key, listener) => store.watch(key, listener),
    close: () => store.close(),
  }
}

/** Faults of each of some processes. */
const processes = fc.array(
  fc.array(fc.constantFrom(...FAULTS), { maxLength: 16 }), { minLength: 1, maxLength: 4 },
)

describe('changes of several processes', () => {
  test('take effect once each, even if replies are lost, calls are sent twice and writers conflict', async () => {
    await fc.assert(fc.asyncProperty(processes, async (all) => {
      const store = new MemoryStore()
      const names = await Promise.all(all.map(async (faults, at) => {
        const record = open(faulty(store, faults))
        const tokens = [0, 1, 2].map((n) => `${at}.${n}`)
        for (const token of tokens) await stubbornly(() => record.change(adding(token)))
        return tokens
      }))
      const stored = await open(store).read() ?? []
      assert.deepEqual([...stored].sort(), names.flat().sort())
      for (const tokens of names) assert.deepEqual(stored.filter((token) => tokens.includes(token)), tokens)
    }), { numRuns: 300 })
  })

  test('delete the entry when its last token is removed, even if replies are lost', async () => {
    await fc.assert(fc.asyncProperty(processes, async (all) => {
      const store = new MemoryStore()
      await open(store).create(all.map((_, at) => String(at)))
      await Promise.all(all.map((faults, at) => {
        const record = open(faulty(store, faults))
        return stubbornly(() => record.change((tokens = []) => {
          if (!tokens.includes(String(at))) return UNCHANGED
          const left = tokens.filter((token) => token !== String(at))
          return left.length === 0 ? undefined : left
        }))
      }))
      assert.equal(await store.get(KEY), undefined)
    }), { numRuns: 200 })
  })

  test('write an evicted entry again, without adding a token twice', async () => {
    await fc.assert(fc.asyncProperty(processes, async (all) => {
      const store = new MemoryStore()
      let isOver = false
      const evicting = (async () => {
        for (let turn = 0; !isOver; turn++) {
          if (turn % 5 === 4) await store.delete(KEY)
          const tokens = await open(store).read() ?? []
          assert.equal(new Set(tokens).size, tokens.length)
          await new Promise(setImmediate)
        }
      })()
      await Promise.all(all.map(async (faults, at) => {
        const record = open(faulty(store, faults))
        for (const n of [0, 1, 2]) await stubbornly(() => record.change(adding(`${at}.${n}`)))
      }))
      isOver = true
      await evicting
    }), { numRuns: 100 })
  })

  test('let one of several writers create an entry that must not exist yet', async () => {
    await fc.assert(fc.asyncProperty(processes, async (all) => {
      const store = new MemoryStore()
      const claims = await Promise.all(all.map(async (faults, at) => {
        const record = open(faulty(store, faults))
        const isOwn = await record.create([String(at)]).catch(() => undefined)
        return isOwn === undefined ? [] : [[String(at), isOwn, record.value] as const]
      }))
      const entry = await open(store).read()
      for (const [name, isOwn, value] of claims.flat()) {
        assert.deepEqual([value, isOwn], [entry, entry?.[0] === name])
      }
    }), { numRuns: 200 })
  })
})

describe('one change', () => {
  function counted() {
    const store = new MemoryStore()
    const spy = new Spy()
    return { store, spy, record: open(new SpyStore(store, spy)) }
  }

  test('reads the entry once, and the next change only writes', async () => {
    const { spy, record } = counted()
    await record.change(adding('a'))
    await record.change(adding('b'))
    assert.deepEqual(spy.calls, [`get ${KEY}`, `create ${KEY}`, `replace ${KEY}`])
  })

  test('writes nothing if the update leaves the entry unchanged', async () => {
    const { spy, record } = counted()
    await record.change(() => UNCHANGED)
    await record.change(() => undefined)
    assert.deepEqual(spy.calls, [`get ${KEY}`])
  })

  test('counts as a deletion if the entry no longer exists, even if its client has sent the call twice', async () => {
    const store = new MemoryStore()
    const record = open(faulty(store, ['none', 'none', 'resent']))
    await record.change(() => ['a'])
    const seen: unknown[] = []
    await record.change((tokens) => {
      seen.push(tokens)
      return undefined
    })
    assert.deepEqual([seen, store.get(KEY)], [[['a']], undefined])
  })

  test('ends with the error of its update, for example of a writer that was fenced', async () => {
    const { store, record } = counted()
    await record.create(['own'])
    await open(store).change(() => ['other'])
    const change = record.change((tokens) => {
      if (tokens?.[0] !== 'own') throw new Error('fenced')
      return ['own', 'more']
    })
    await assert.rejects(change, /fenced/)
    assert.deepEqual(await open(store).read(), ['other'])
  })

  test('reads the entry again after a failure', async () => {
    const { store, spy, record } = counted()
    await record.create(['a'])
    spy.fault = () => 'after'
    await assert.rejects(record.change(adding('b')), /nobody knows/)
    spy.fault = () => undefined
    await open(store).change(adding('c'))
    await record.change(adding('b'))
    assert.deepEqual(record.value, ['a', 'b', 'c'])
  })
})

describe('the lifetime of an entry', () => {
  function timed(options: RecordKind<Tokens>['options']) {
    const clock = { now: 0 }
    const store = new MemoryStore({ now: () => clock.now })
    return { clock, record: open(store, { options }), other: open(store) }
  }

  test('begins again with each write that has one', async () => {
    const { clock, record, other } = timed(() => ({ ttlMs: 1000 }))
    await record.create(['a'])
    clock.now = 900
    await record.change(adding('b'))
    clock.now = 1800
    assert.deepEqual(await other.read(), ['a', 'b'])
    clock.now = 1900
    assert.equal(await other.read(), undefined)
  })

  test('stays with a write that has none', async () => {
    const { clock, record, other } = timed(() => ({}))
    await record.create(['a'], { ttlMs: 1000 })
    clock.now = 900
    await record.change(adding('b'))
    assert.deepEqual(await other.read(), ['a', 'b'])
    clock.now = 1000
    assert.equal(await other.read(), undefined)
  })

  test('does not restore an entry that has expired: the update gets no value', async () => {
    const { clock, record } = timed(() => ({ ttlMs: 1000 }))
    await record.create(['a'])
    clock.now = 1000
    const seen: unknown[] = []
    await record.change((tokens) => {
      seen.push(tokens)
      return tokens ? ['a', 'b'] : ['new']
    })
    assert.deepEqual([seen, record.value], [[['a'], undefined], ['new']])
  })
})
