import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  clearTimeout, setGlobalTimeout, setTimeout, settles, within,
} from '../../../src/runtime/timers.js'

const LONG_MS = [2 ** 31, 30 * 86_400_000, 100 * 365 * 86_400_000, Infinity]

test('a timer of more than 2^31 - 1 ms neither fires at once nor makes Node warn', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', note)
  t.after(() => { process.off('warning', note) })
  const fired: number[] = []
  for (const set of [setTimeout, setGlobalTimeout]) {
    const timers = LONG_MS.map((ms) => set(() => fired.push(ms), ms).unref())
    await new Promise<void>((resolve) => { setTimeout(resolve, 20) })
    for (const timer of timers) clearTimeout(timer)
  }
  assert.deepEqual([fired, warnings], [[], []])
})

test('a long timer fires once after all of its time, with its argument', () => {
  const waits: number[] = []
  let fire = (): void => undefined
  const timer = { refresh: () => { waits.push(waits.at(-1) ?? 0) } }
  const fired: string[] = []
  const real = globalThis.setTimeout
  globalThis.setTimeout = ((callback: () => void, ms: number) => {
    waits.push(ms)
    fire = callback
    return timer
  }) as never
  try {
    setGlobalTimeout((name: string) => { fired.push(name) }, 5e9, 'argument')
  } finally {
    globalThis.setTimeout = real
  }
  fire()
  fire()
  assert.deepEqual([waits.reduce((sum, ms) => sum + ms), fired], [5e9, []])
  fire()
  assert.deepEqual([waits.length, fired], [3, ['argument']])
})

test('work with a limit of Infinity never times out', async () => {
  const work = new Promise<string>((resolve) => { setTimeout(() => { resolve('done') }, 20) })
  assert.equal(await within(work, Infinity, () => new Error('late')), 'done')
  const slow = new Promise<void>((resolve) => { setTimeout(resolve, 20) })
  assert.equal(await settles(slow, Infinity), true)
})
