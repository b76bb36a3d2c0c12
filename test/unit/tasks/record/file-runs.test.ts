import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hiddenFileKeys, withFileRun, type FileRun } from '../../../../src/tasks/record/outside.js'

test('a record names the blobs of its last ten runs, however often the task is retried', () => {
  let fileRuns: readonly FileRun[] = []
  for (let attempt = 1; attempt <= 100; attempt++) {
    fileRuns = withFileRun(fileRuns, `job.${attempt}`, 4)
    fileRuns = withFileRun(fileRuns, `job.${attempt}`, 8)
    assert.deepEqual(fileRuns.at(-1), [`job.${attempt}`, 8])
  }
  assert.deepEqual(fileRuns.map(([run]) => run), Array.from({ length: 10 }, (_, n) => `job.${91 + n}`))
  assert.equal(hiddenFileKeys({ id: 'task', fileRuns, blobs: ['job.3/0', 'job.100/0'] }).length, 79)
  assert.deepEqual(withFileRun(fileRuns, 'job.100', 0).length, 9)
})
