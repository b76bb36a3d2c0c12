import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { eventually, pause, together } from '../waiting.js'
import { HOUR, type Context } from './context.js'

/** Tests of the checks of unfinished tasks. */
export const checkCases: Cases<Context> = {
  'an entry is given once its time has come, and then not before its next': async ({
    index,
    second,
    timeoutMs,
  }) => {
    await index.add('late', HOUR)
    await index.add('soon', 100)
    const began = performance.now()
    const entries: string[] = []
    await eventually(
      async () => {
        entries.push(...(await second.take(10, 100)))
        return entries.length >= 2
      },
      timeoutMs,
      'it is given twice',
    )
    assert.deepEqual(entries, ['soon', 'soon'])
    assert.ok(performance.now() - began >= 150, 'given too early')
  },

  'no more are given than were asked for, the earliest first': async ({ index, second }) => {
    for (const [at, entry] of ['one', 'two', 'three'].entries()) await index.add(entry, at)
    await pause(20)
    const first = await second.take(2, HOUR)
    assert.equal(first.length, 2)
    assert.deepEqual([...first, ...(await second.take(2, HOUR))].sort(), ['one', 'three', 'two'])
    assert.deepEqual(await second.take(2, HOUR), [])
  },

  'an entry that was removed is not given, and may be added again': async (context) => {
    const { index } = context
    for (const entry of ['gone', 'again', 'stays']) await index.add(entry, 0)
    index.remove('gone')
    index.remove('again')
    index.remove('never-was')
    await index.add('again', 0)
    // A removal may be sent some 20 ms later.
    await pause(50)
    assert.deepEqual((await context.taken(2)).sort(), ['again', 'stays'])
  },

  'an entry that is added twice is one, at its last time': async (context) => {
    const { index, second } = context
    await index.add('entry', HOUR)
    await index.add('entry', 0)
    await index.add('other', 0)
    await index.add('other', HOUR)
    assert.deepEqual(await context.taken(1), ['entry'])
    assert.deepEqual(await second.take(10, 0), [])
  },

  'of many who take at once each entry is given to one': async ({ index, second }) => {
    const all = Array.from({ length: 60 }, (_, n) => `entry-${String(n)}`)
    await Promise.all(all.map(async (entry) => index.add(entry, 0)))
    await pause(20)
    const taken = await together(12, async (n) => (n % 2 === 0 ? index : second).take(10, HOUR))
    assert.deepEqual(taken.flat().sort(), all.sort())
  },

  'entries are any text': async (context) => {
    const odd = ['a~b', '{x}', 'a b\nc', '-', 'é', '😀', '5']
    for (const entry of odd) await context.index.add(entry, 0)
    assert.deepEqual((await context.taken(odd.length)).sort(), odd.sort())
  },

  'an entry is restored only if it is lost': async (context) => {
    const { index, second } = context
    await index.add('there', HOUR)
    await index.restore('there', 0)
    await index.add('due', 0)
    await second.restore('due', HOUR)
    await index.restore('lost', 0)
    assert.deepEqual((await context.taken(2)).sort(), ['due', 'lost'])
    assert.deepEqual(await second.take(10, 0), [])
  },

  'an entry that was removed may be restored at once': async (context) => {
    await context.index.add('entry', HOUR)
    context.index.remove('entry')
    await context.index.restore('entry', 0)
    assert.deepEqual(await context.taken(1), ['entry'])
  },
}
