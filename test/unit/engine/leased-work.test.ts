import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { Places, type WorkHandlers } from '../../../src/engine/engine.js'
import { LeasedWork, type WorkSource } from '../../../src/engine/leased-work.js'
import { isWorkerClosing, LeasedRun } from '../../../src/engine/runs.js'
import type { StoredTask } from '../../../src/engine/task.js'
import { deferred, eventually } from '../../kit/wait.js'

const task = { id: 'one', birth: 'birth', run: 1, status: 'processing' } as StoredTask

function work(
  t: TestContext, handlers: Partial<WorkHandlers> = {}, source: Partial<WorkSource> = {},
): LeasedWork {
  const all: WorkHandlers = {
    run: async () => undefined, callback: async () => undefined, remove: async () => true,
    abandon: () => undefined, ...handlers,
  }
  const made = new LeasedWork({ places: new Places(new Map([['default', 1]])), callbacks: 2 }, all, {
    leaseMs: 15_000, renew: async () => [], look: async () => undefined, ...source,
  })
  t.after(() => made.close(0))
  return made
}

/** Leaves out the looks at intervals until it is restored, so that only a request leads to a look. */
function withoutPeriodicLooks(t: TestContext, made: LeasedWork): { restore(): void } {
  const lookIn = made.lookIn.bind(made)
  return t.mock.method(made, 'lookIn', (ms: number) => { if (ms === 0) lookIn(ms) }).mock
}

function newRun(): LeasedRun {
  return new LeasedRun({
    task, lease: 'l', input: '{}', checkpoint: undefined, crashed: undefined,
    leaseEnd: performance.now() + 15_000,
  })
}

test('a process runs one look for work at a time, and looks again after a failure', async (t) => {
  const latch = deferred()
  let [looks, atOnce] = [0, 0]
  const made = work(t, {}, { look: async () => {
    assert.equal(++atOnce, 1)
    if (++looks === 1) await latch.promise
    atOnce--
    if (looks !== 2) return
    periodic.restore()
    throw new Error('The server is away')
  } })
  const periodic = withoutPeriodicLooks(t, made)
  made.lookIn(0)
  await eventually(() => looks === 1, 30_000, 'the first look begins')
  for (let times = 0; times < 5; times++) made.lookIn(0)
  await new Promise((resolve) => { setTimeout(resolve, 20) })
  assert.equal(looks, 1)
  latch.resolve()
  await eventually(() => looks === 2, 30_000, 'one more look is made')
  await eventually(() => looks === 3, 30_000, 'the next look comes after the interval')
})

test('a process looks for work again when one of its places for callbacks is free', async (t) => {
  const latch = deferred()
  let looks = 0
  const made = work(t, { callback: () => latch.promise }, { look: async () => { looks++ } })
  withoutPeriodicLooks(t, made)
  made.lookIn(0)
  await eventually(() => looks === 1, 30_000, 'it looks')
  const sent = [made.callBack(task), made.callBack(task)]
  assert.equal(made.freeCallbacks, 0)
  latch.resolve()
  await Promise.all(sent)
  assert.equal(made.freeCallbacks, 2)
  await eventually(() => looks === 2, 30_000, 'it looks again')
})

test('a process stores the outcome of a removal, and frees its place even if the write fails', async (t) => {
  const made = work(t, { remove: async () => false })
  const noted: boolean[] = []
  await made.remove(task, async (isRemoved) => { noted.push(isRemoved) })
  await made.remove(task, () => Promise.reject(new Error('The server is away')))
  assert.deepEqual([noted, made.freeRemovals], [[false], 10])
})

test('close waits for runs, aborts them after the drain time, and aborts runs that begin later', async (t) => {
  const reasons: unknown[] = []
  const made = work(t, { run: (run) => new Promise((resolve) => {
    run.onAbort((reason) => {
      reasons.push(isWorkerClosing(reason))
      resolve()
    })
  }) })
  const running = made.perform(newRun())
  const began = performance.now()
  await made.close(50)
  assert.ok(performance.now() - began >= 45)
  await running
  await made.perform(newRun())
  assert.deepEqual(reasons, [true, true])
})
