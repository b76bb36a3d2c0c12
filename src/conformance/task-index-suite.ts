import assert from 'node:assert/strict'
import { checkNames } from '../runtime/option-names.js'
import type { TaskIndex } from '../stores/task-index.js'
import { register, type Cases, type Runner } from './runner.js'
import { eventually, pause, together } from './waiting.js'

/** A fresh, empty index for one test. */
export interface TaskIndexFixture {
  readonly index: TaskIndex
  /** Second index on the same data, as in another process. */
  readonly second?: TaskIndex
  /** Cleans up after the test. Default: does nothing. */
  readonly close?: () => Promise<void> | void
}

/** Options of `taskIndexConformance`. */
export interface TaskIndexConformanceOptions {
  /** Title of the suite. Default: `TaskIndex conformance`. */
  readonly title?: string
  /** Time limit for each expected event, in milliseconds. Default 5000. */
  readonly timeoutMs?: number
}

const KNOWN = { title: 0, timeoutMs: 0 } satisfies Record<keyof TaskIndexConformanceOptions, 0>
const HOUR = 3_600_000

class Context {
  readonly index: TaskIndex
  readonly second: TaskIndex
  readonly timeoutMs: number

  constructor(
    private readonly fixture: TaskIndexFixture,
    { timeoutMs = 5000 }: TaskIndexConformanceOptions,
  ) {
    this.index = fixture.index
    this.second = fixture.second ?? fixture.index
    this.timeoutMs = timeoutMs
  }

  /** Takes entries until there are at least `count`. */
  async taken(count: number): Promise<string[]> {
    const entries: string[] = []
    await eventually(
      async () => {
        entries.push(...(await this.second.take(100, HOUR)))
        return entries.length >= count
      },
      this.timeoutMs,
      `${String(count)} entries are due`,
    )
    return entries
  }

  async end(): Promise<void> {
    await this.fixture.close?.()
  }
}

const cases: Cases<Context> = {
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
}

/**
 * Registers the tests that every implementation of `TaskIndex` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates a fresh, empty index for each test.
 *
 * @example
 * taskIndexConformance(runner, async () => ({ index: await openIndex() }))
 *
 * @throws {TypeError} An option is unknown.
 */
export function taskIndexConformance(
  runner: Runner,
  factory: () => Promise<TaskIndexFixture>,
  options: TaskIndexConformanceOptions = {},
): void {
  checkNames('taskIndexConformance', options, KNOWN)
  register(
    runner,
    options.title ?? 'TaskIndex conformance',
    { entries: cases },
    async () => new Context(await factory(), options),
  )
}
