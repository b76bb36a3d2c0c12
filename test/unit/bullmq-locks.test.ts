// The locks of the jobs that a worker runs, without a server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Locks } from '../../adapters/bullmq/locks.js'

test('the lock of a job that this worker runs again is renewed after the earlier run has ended', async (t) => {
  const locks = new Locks(40, () => undefined)
  t.after(() => { locks.stop() })
  locks.add({ id: 'job' }, 'first')
  // The first lock was lost while the process was suspended, and this worker took the job again.
  locks.add({ id: 'job' }, 'second')
  locks.remove({ id: 'job' }, 'first')
  const renewed = await new Promise<readonly string[]>((resolve) => {
    locks.start({
      extendJobLocks: (_, tokens) => {
        resolve(tokens)
        return Promise.resolve([])
      },
    })
    // The timer of the renewals does not keep the process alive.
    const limit = setTimeout(() => { resolve([]) }, 5000)
    t.after(() => { clearTimeout(limit) })
  })
  assert.deepEqual(renewed, ['second'])
})
