import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Cases } from './runner.js'
import type { StoreContext } from './store-context.js'

const DECADE = { ttlMs: 10 * 365 * 86_400_000 }
const NONE = { ttlMs: -1000 }

/** Tests of expiry. */
export const expiry: Cases<StoreContext> = {
  'an entry is there before its expiry and gone after it': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.created(key, 'x', life)
      assert.equal(await context.value(key), 'x', 'the entry went before its expiry')
    })
    await context.outlive(life)
    assert.equal(await context.store.get(key), undefined, 'the entry outlived its expiry')
  },

  'replace of an expired entry finds nothing': async (context) => {
    const revision = await context.created(context.key(), 'x', context.soon)
    await context.outlive(context.soon)
    const outcome = await context.store.replace(context.key(), 'y', revision, context.later)
    assert.deepEqual(outcome, { replaced: false, entry: undefined })
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'delete of an expired entry removes nothing': async (context) => {
    const revision = await context.created(context.key(), 'x', context.soon)
    await context.outlive(context.soon)
    assert.equal(await context.store.delete(context.key(), revision), false)
    assert.equal(await context.store.delete(context.key()), false)
  },

  'create works after the expiry, under a new revision': async (context) => {
    const old = await context.created(context.key(), 'x', context.soon)
    await context.outlive(context.soon)
    assert.notEqual(await context.created(context.key(), 'new'), old)
    await context.outdated(context.key(), old)
    assert.equal(await context.value(context.key()), 'new')
  },

  'replace can move the expiry further away': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.replaced(key, 'y', await context.created(key, 'x', life))
    })
    await context.outlive(life)
    assert.equal(await context.value(key), 'y', 'the entry went at its first expiry')
  },

  'replace can bring the expiry nearer': async (context) => {
    const revision = await context.created(context.key(), 'x')
    await context.replaced(context.key(), 'y', revision, context.soon)
    await context.outlive(context.soon)
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'replace without a lifetime keeps the expiry': async (context) => {
    const kept = await context.created(context.key('kept'), 'x')
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.replaced(key, 'y', await context.created(key, 'x', life), {})
      assert.equal(await context.value(key), 'y', 'the entry went before its expiry')
    })
    await context.replaced(context.key('kept'), 'y', kept, {})
    await context.outlive(life)
    assert.equal(await context.store.get(key), undefined, 'the entry outlived its expiry')
    assert.equal(await context.value(context.key('kept')), 'y', 'the entry went before its expiry')
  },

  'a create that lost does not move the expiry': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.created(key, 'x', life)
      const { created } = await context.store.create(key, 'y', context.later)
      assert.equal(created, false, 'the entry went early')
    })
    await context.outlive(life)
    assert.equal(await context.store.get(key), undefined)
  },

  'a write without a lifetime counts as written and is gone at once': async (context) => {
    await context.created(context.key(), 'x', NONE)
    await context.outlive({ ttlMs: 1 })
    assert.equal(await context.store.get(context.key()), undefined)
    const revision = await context.created(context.key(), 'y')
    await context.replaced(context.key(), 'z', revision, NONE)
    await context.outlive({ ttlMs: 1 })
    assert.equal(await context.store.get(context.key()), undefined)
    await context.created(context.key(), 'free again')
  },

  'an expiry may be ten years away': async (context) => {
    await context.created(context.key(), 'x', DECADE)
    assert.equal(await context.value(context.key()), 'x')
    const { resetMs } = await context.store.increment(context.key(), 1, DECADE)
    assert.ok(resetMs > DECADE.ttlMs - 60_000, `resetMs is ${resetMs}`)
  },
}

/** Tests of the share of one owner. The owners of a test are its own. */
export const owners: Cases<StoreContext> = {
  'an owner above its share loses its own oldest entries, and nobody else does': async (context) => {
    const [ann, bob] = ownersOf(context)
    const kept = { ...context.later, evictable: true }
    for (const name of ['bob-1', 'bob-2']) {
      await context.created(context.key(name), 'x', { ...kept, owner: bob })
    }
    await context.created(context.key('nobody'), 'x', kept)
    const keys = await flood(context, 2 * context.share.entries, 'x')
    await shrinks(context, keys)
    assert.equal(await context.value(last(keys)), 'x', 'the newest entry went')
    assert.equal(await context.value(keys[0] as string), undefined, 'the oldest entry stayed')
    for (const name of ['bob-1', 'bob-2', 'nobody']) {
      assert.equal(await context.value(context.key(name)), 'x', `the flood of ${ann} removed ${name}`)
    }
  },

  'an old entry with a long lifetime goes before a new one with a short lifetime': async (context) => {
    const { entries } = context.share
    const long = await flood(context, entries, 'x')
    const short = await flood(context, Math.floor(entries / 2), 'x', {
      name: 'short', ttlMs: context.later.ttlMs / 2,
    })
    await shrinks(context, [...long, ...short])
    assert.equal(await live(context, short), short.length, 'a new entry went')
    assert.equal(await context.value(long[0] as string), undefined, 'the oldest entry stayed')
  },

  'the share is one of bytes too': async (context) => {
    const { share } = context
    // Random, so that no store compresses it.
    const value = randomBytes(share.bytes / 8).toString('base64url')
    const keys = await flood(context, 16, value)
    await context.eventually(
      async () => await live(context, keys) * value.length <= share.bytes,
      'the owner keeps more bytes than its share',
    )
    assert.equal(await context.value(last(keys)), value, 'the newest entry went')
    assert.equal(await context.value(keys[0] as string), undefined, 'the oldest entry stayed')
  },

  'an entry that is not evictable stays, whatever its owner has': async (context) => {
    const [owner] = ownersOf(context)
    const { later } = context
    await context.created(context.key('pinned'), 'x', { ...later, owner })
    const revision = await context.created(context.key('again'), 'x', {
      ...later, evictable: true, owner,
    })
    await context.replaced(context.key('again'), 'y', revision, {})
    const keys = await flood(context, 2 * context.share.entries, 'x')
    await shrinks(context, keys)
    assert.equal(await context.value(context.key('pinned')), 'x', 'a pinned entry went')
    assert.equal(await context.value(context.key('again')), 'y', 'an entry that was pinned again went')
  },

  'an entry that is written often counts once': async (context) => {
    const [owner] = ownersOf(context)
    const kept = { ...context.later, evictable: true, owner }
    await context.created(context.key('first'), 'x', kept)
    let revision = await context.created(context.key('often'), '0', kept)
    for (let n = 1; n <= 2 * context.share.entries; n++) {
      revision = await context.replaced(context.key('often'), String(n), revision, kept)
    }
    await context.quiet()
    assert.equal(await context.value(context.key('first')), 'x', 'one entry counted many times')
  },
}

function ownersOf(context: StoreContext): readonly [string, string] {
  return [context.key('ann'), context.key('bob')]
}

/** Writes `count` entries of the first owner, one after the other. Returns their keys. */
async function flood(
  context: StoreContext, count: number, value: string,
  { name = 'flood', ttlMs = context.later.ttlMs }: { name?: string, ttlMs?: number } = {},
): Promise<string[]> {
  const [owner] = ownersOf(context)
  const keys: string[] = []
  for (let n = 0; n < count; n++) {
    const key = context.key(`${name}-${String(n).padStart(6, '0')}`)
    await context.created(key, value, { ttlMs, evictable: true, owner })
    keys.push(key)
  }
  return keys
}

/** Waits until the owner has no more of these entries than its share. */
function shrinks(context: StoreContext, keys: readonly string[]): Promise<void> {
  return context.eventually(
    async () => await live(context, keys) <= context.share.entries,
    'the owner keeps more entries than its share',
  )
}

async function live(context: StoreContext, keys: readonly string[]): Promise<number> {
  const entries = await Promise.all(keys.map(async (key) => context.store.get(key)))
  return entries.filter((entry) => entry !== undefined).length
}

function last(keys: readonly string[]): string {
  return keys.at(-1) as string
}
