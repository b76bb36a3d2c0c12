import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { LeasedRun, Leases, RunReplacedError, type Renewal } from '../../../src/engine/runs.js'
import type { StoredTask } from '../../../src/engine/task.js'
import { deferred, eventually } from '../../kit/wait.js'

const HOUR = 3_600_000

function runOf(id: string, { run = 1, leaseEnd = performance.now() + HOUR } = {}): LeasedRun {
  const task = { id, birth: 'b', run, status: 'processing' } as StoredTask
  return new LeasedRun({
    task, lease: 'l', input: '1', checkpoint: undefined, crashed: undefined, leaseEnd,
  })
}

/** Leases of some runs, whose renewals have the outcomes that `send` returns. */
function leasesOf(
  t: TestContext, runs: readonly LeasedRun[],
  send: (ids: readonly string[]) => Promise<readonly Renewal[]>, leaseMs = HOUR,
): Leases {
  const leases = new Leases(leaseMs, (sent) => send(sent.map(({ task }) => task.id)))
  for (const run of runs) leases.add(run)
  t.after(() => { leases.stop() })
  return leases
}

describe('Leases', () => {
  test('abort a lost run, and leave the end of the lease unchanged for a run whose task is busy', async (t) => {
    const runs = ['renewed', 'lost', 'busy'].map((id) => runOf(id, { leaseEnd: performance.now() + HOUR / 2 }))
    const before = runs.map(({ leaseEnd }) => leaseEnd)
    const sent: (readonly string[])[] = []
    const leases = leasesOf(t, runs, async (ids) => {
      sent.push(ids)
      return ids as readonly Renewal[]
    })
    await leases.renew()
    assert.deepEqual(runs.map(({ signal }) => signal.aborted), [false, true, false])
    assert.ok(runs[1]?.signal.reason instanceof RunReplacedError)
    assert.deepEqual(runs.map(({ leaseEnd }, n) => leaseEnd > (before[n] ?? 0)), [true, false, false])
    await leases.renew()
    assert.deepEqual(sent, [['renewed', 'lost', 'busy'], ['renewed', 'busy']])
  })

  test('renew once more if a renewal is requested during another renewal', async (t) => {
    const first = deferred<readonly Renewal[]>()
    const answers = [first.promise, Promise.resolve(['lost'] as const)]
    const run = runOf('one')
    let sent = 0
    const leases = leasesOf(t, [run], () => answers[sent++] ?? Promise.resolve([]))
    const renewed = leases.renew()
    // The run ends elsewhere after the first renewal was sent.
    await leases.renew()
    first.resolve(['renewed'])
    await renewed
    assert.deepEqual([sent, run.signal.aborted], [2, true])
  })

  test('abort a run before its lease ends, if every renewal fails', async (t) => {
    const run = runOf('one', { leaseEnd: performance.now() + 1500 })
    let tries = 0
    let abortedAt = Infinity
    run.onAbort(() => { abortedAt = performance.now() })
    leasesOf(t, [run], async () => {
      tries++
      throw new Error('fails, on purpose')
    }, 1500)
    await eventually(async () => run.signal.aborted)
    assert.ok(run.signal.reason instanceof RunReplacedError)
    assert.ok(abortedAt < run.leaseEnd, 'another process may have begun the next run')
    assert.ok(tries >= 2, `it was tried ${String(tries)} times`)
  })

  test('abort the earlier run of a task when a later run begins, and the end of the earlier run does not stop the renewals', async (t) => {
    const [first, second] = [runOf('one'), runOf('one', { run: 2 })]
    const sent: (readonly string[])[] = []
    const leases = leasesOf(t, [first, second], async (ids) => {
      sent.push(ids)
      return ['renewed']
    })
    leases.remove(first)
    await leases.renew()
    assert.deepEqual([first.signal.aborted, second.signal.aborted, sent], [true, false, [['one']]])
  })

  test('end a run after a change of its task, unless the change belongs to an earlier run or an earlier task', (t) => {
    const runs = ['own', 'other'].map((id) => runOf(id, { run: 2 }))
    const leases = leasesOf(t, runs, async () => [])
    const [own, other] = runs as [LeasedRun, LeasedRun]
    leases.note({ ...own.task, status: 'completed' }, true)
    for (const task of [{ run: 1 }, { birth: 'c', status: 'failed' }, {}] as const) {
      leases.note({ ...other.task, ...task }, false)
    }
    assert.deepEqual([own.signal.aborted, other.signal.aborted], [false, false])
    leases.note({ ...other.task, status: 'cancelled' }, false)
    assert.ok(other.signal.reason instanceof RunReplacedError)
  })
})
