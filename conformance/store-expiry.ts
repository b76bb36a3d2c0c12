import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Cases } from './runner.js'
import type { StoreContext } from './store-context.js'

const DECADE = { ttlMs: 10 * 365 * 86_400_000 }
const NONE = { ttlMs: -1000 }

/** Tests of expiry. */
export const expiry: Cases<StoreContext> = {
  'an entry exists before its expiry and not after it': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.created(key, 'x', life)
      assert.equal(await context.value(key), 'x', 'the entry expired early')
    })
    await context.outlive(life)
    await context.absent(key, 'the entry outlived its expiry')
  },

  'replace and delete find no expired entry, and create gives a new revision': async (context) => {
    const old = await context.created(context.key(), 'x', context.short)
    await context.outlive(context.short)
    const outcome = await context.store.replace(context.key(), 'y', old, context.later)
    assert.deepEqual(outcome, { replaced: false, entry: undefined })
    assert.equal(await context.store.delete(context.key(), old), false)
    assert.equal(await context.store.delete(context.key()), false)
    assert.notEqual(await context.created(context.key(), 'new'), old)
    await context.outdated(context.key(), old)
    assert.equal(await context.value(context.key()), 'new')
  },

  'replace can prolong the lifetime': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.replaced(key, 'y', await context.created(key, 'x', life))
    })
    await context.outlive(life)
    assert.equal(await context.value(key), 'y', 'the entry expired with its first lifetime')
  },

  'replace can shorten the lifetime': async (context) => {
    const revision = await context.created(context.key(), 'x')
    await context.replaced(context.key(), 'y', revision, context.short)
    await context.outlive(context.short)
    await context.absent(context.key())
  },

  'replace without a lifetime keeps the expiry': async (context) => {
    const kept = await context.created(context.key('kept'), 'x')
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.replaced(key, 'y', await context.created(key, 'x', life), {})
      assert.equal(await context.value(key), 'y', 'the entry expired early')
    })
    await context.replaced(context.key('kept'), 'y', kept, {})
    await context.outlive(life)
    await context.absent(key, 'the entry outlived its expiry')
    assert.equal(await context.value(context.key('kept')), 'y', 'the entry expired early')
  },

  'a create that finds an entry does not change its lifetime': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.created(key, 'x', life)
      const { created } = await context.store.create(key, 'y', context.later)
      assert.equal(created, false, 'the entry expired early')
    })
    await context.outlive(life)
    await context.absent(key)
  },

  'a write with a negative lifetime succeeds and expires at once': async (context) => {
    await context.created(context.key(), 'x', NONE)
    await context.outlive({ ttlMs: 1 })
    await context.absent(context.key())
    const revision = await context.created(context.key(), 'y')
    await context.replaced(context.key(), 'z', revision, NONE)
    await context.outlive({ ttlMs: 1 })
    await context.absent(context.key())
    await context.created(context.key(), 'free again')
  },

  'an expiry may be ten years away': async (context) => {
    await context.created(context.key(), 'x', DECADE)
    assert.equal(await context.value(context.key()), 'x')
    const { resetMs } = await context.store.increment(context.key(), 1, DECADE)
    assert.ok(resetMs > DECADE.ttlMs - 60_000, `resetMs is ${resetMs}`)
  },
}

/** Tests of the share of one caller. Each test has its own callers. */
export const callers: Cases<StoreContext> = {
  'a caller above its share loses its own oldest entries, and other callers lose none': async (context) => {
    const [ann, bob] = callersOf(context)
    const kept = { ...context.later, evictable: true }
    for (const name of ['bob-1', 'bob-2']) {
      await context.created(context.key(name), 'x', { ...kept, caller: bob })
    }
    await context.created(context.key('nobody'), 'x', kept)
    const keys = await flood(context, 2 * context.share.entries, 'x')
    await shrinks(context, keys)
    assert.equal(await context.value(last(keys)), 'x', 'the newest entry was removed')
    assert.equal(await context.value(keys[0] as string), undefined, 'the oldest entry stayed')
    for (const name of ['bob-1', 'bob-2', 'nobody']) {
      assert.equal(await context.value(context.key(name)), 'x', `the flood of ${ann} removed ${name}`)
    }
  },

  'an old entry with a long lifetime is removed before a new one with a short lifetime': async (context) => {
    const { entries } = context.share
    const long = await flood(context, entries, 'x')
    const short = await flood(context, Math.floor(entries / 2), 'x', {
      name: 'short', ttlMs: context.later.ttlMs / 2,
    })
    await shrinks(context, [...long, ...short])
    assert.equal(await live(context, short), short.length, 'a new entry was removed')
    assert.equal(await context.value(long[0] as string), undefined, 'the oldest entry stayed')
  },

  'the share limits bytes': async (context) => {
    const { share } = context
    // Random, so that no store compresses it.
    const value = randomBytes(share.bytes / 8).toString('base64url')
    const keys = await flood(context, 16, value)
    await context.eventually(
      async () => await live(context, keys) * value.length <= share.bytes,
      'the caller keeps more bytes than its share',
    )
    assert.equal(await context.value(last(keys)), value, 'the newest entry was removed')
    assert.equal(await context.value(keys[0] as string), undefined, 'the oldest entry stayed')
  },

  'an entry that is not evictable stays, however many entries its caller has': async (context) => {
    const [caller] = callersOf(context)
    const { later } = context
    await context.created(context.key('pinned'), 'x', { ...later, caller })
    const revision = await context.created(context.key('again'), 'x', {
      ...later, evictable: true, caller,
    })
    await context.replaced(context.key('again'), 'y', revision, {})
    const keys = await flood(context, 2 * context.share.entries, 'x')
    await shrinks(context, keys)
    assert.equal(await context.value(context.key('pinned')), 'x', 'a pinned entry was removed')
    assert.equal(await context.value(context.key('again')), 'y', 'an entry that was pinned again was removed')
  },

  'an entry that is written often counts once': async (context) => {
    const [caller] = callersOf(context)
    const kept = { ...context.later, evictable: true, caller }
    await context.created(context.key('first'), 'x', kept)
    let revision = await context.created(context.key('often'), '0', kept)
    for (let n = 1; n <= 2 * context.share.entries; n++) {
      revision = await context.replaced(context.key('often'), String(n), revision, kept)
    }
    await context.quiet()
    assert.equal(await context.value(context.key('first')), 'x', 'one entry counted many times')
  },

  'an entry that was deleted counts no longer': async (context) => {
    const [caller] = callersOf(context)
    const kept = { ...context.later, evictable: true, caller }
    await context.created(context.key('first'), 'x', kept)
    for (let n = 1; n <= 2 * context.share.entries; n++) {
      const key = context.key(`deleted-${n}`)
      const revision = await context.created(key, 'x', kept)
      assert.equal(await context.store.delete(key, ...n % 2 === 0 ? [revision] : []), true)
    }
    await context.created(context.key('last'), 'x', kept)
    await context.quiet()
    assert.equal(await context.value(context.key('first')), 'x', 'deleted entries counted')
  },
}

function callersOf(context: StoreContext): readonly [string, string] {
  return [context.key('ann'), context.key('bob')]
}

/** Writes `count` entries of the first caller, one after the other. Returns their keys. */
async function flood(
  context: StoreContext, count: number, value: string,
  { name = 'flood', ttlMs = context.later.ttlMs }: { name?: string, ttlMs?: number } = {},
): Promise<string[]> {
  const [caller] = callersOf(context)
  const keys: string[] = []
  for (let n = 0; n < count; n++) {
    const key = context.key(`${name}-${String(n).padStart(6, '0')}`)
    await context.created(key, value, { ttlMs, evictable: true, caller })
    keys.push(key)
  }
  return keys
}

/** Waits until the caller has no more of these entries than its share. */
function shrinks(context: StoreContext, keys: readonly string[]): Promise<void> {
  return context.eventually(
    async () => await live(context, keys) <= context.share.entries,
    'the caller keeps more entries than its share',
  )
}

async function live(context: StoreContext, keys: readonly string[]): Promise<number> {
  const entries = await Promise.all(keys.map(async (key) => context.store.get(key)))
  return entries.filter((entry) => entry !== undefined).length
}

function last(keys: readonly string[]): string {
  return keys.at(-1) as string
}
