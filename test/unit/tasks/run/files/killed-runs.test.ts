import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryBlobs } from '../../../../../adapters/memory/index.js'
import { defineTask } from '../../../../../src/tasks/definition/define.js'
import { allFileKeys } from '../../../../../src/tasks/record/files.js'
import type { TaskRecord } from '../../../../../src/tasks/record/record.js'
import type { ExecutorSettings } from '../../../../../src/tasks/run/executor-settings.js'
import { openRunFiles } from '../../../../../src/tasks/run/files/open-run-files.js'
import { Stop } from '../../../../../src/tasks/run/stop.js'

const definition = defineTask({ name: 'export', files: true, timeoutMs: 60_000, run: () => undefined })

test('each blob of a run that was killed is named by the record, however many runs were killed', async () => {
  const blobs = new MemoryBlobs()
  const stored = new Set<string>()
  const { put, delete: remove } = blobs
  blobs.put = async (key, ...rest) => {
    stored.add(key)
    return put.call(blobs, key, ...rest)
  }
  blobs.delete = async (key) => {
    stored.delete(key)
    return remove.call(blobs, key)
  }
  let record = { id: 'task', job: 'job', attempt: 0 } as unknown as TaskRecord
  const startRun = (attempt: number) => {
    record = { ...record, attempt }
    return openRunFiles({ blobs, maxFileBytes: 1e6 } as unknown as ExecutorSettings, definition, {
      record, retentionMs: 1000, stop: new Stop({ signal: new AbortController().signal }),
      write: async (change) => {
        record = { ...record, ...change(record) } as TaskRecord
        return { record, revision: 'r', moved: true }
      },
    })
  }
  const kept = await (async () => {
    const first = startRun(1)
    await first?.write('part-1', ['kept'])
    return await first?.keep() ?? []
  })()
  for (let attempt = 2; attempt <= 30; attempt++) {
    const files = startRun(attempt)
    assert.equal(await files?.adopt(kept), true)
    await files?.write(`part-${attempt}`, ['stored, and its process is killed'])
    const named = new Set(allFileKeys(record))
    assert.deepEqual([...stored].filter((key) => !named.has(key)), [])
  }
  assert.equal(stored.size, 11)
})
