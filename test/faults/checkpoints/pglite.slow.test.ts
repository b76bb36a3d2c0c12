// An import on a PGlite in a folder, whose process is killed. The next process continues it.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { PGlite } from '@electric-sql/pglite'
import { createTasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { program } from '../../servers/program.js'

stopAfterwards()

test('PGlite in a folder: a killed import continues in the next process at the last committed line', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-pglite-'))
  t.after(() => { rmSync(folder, { recursive: true, force: true }) })
  const start = (...args: string[]) => (
    new ServerProcess(process.execPath, [...program(join(import.meta.dirname, 'pglite-process.ts')), folder, ...args], {})
  )
  const first = start()
  const [, taskId = ''] = await first.said(/task (\S+)\n/)
  await first.said(/(wrote\n){20}/)
  first.child.kill('SIGKILL')
  await first.exited
  const batches = first.out.match(/wrote\n/g)?.length ?? 0
  const second = start(taskId)
  const [, done] = await second.said(/resumed (\d+)\n/)
  assert.ok(Number(done) >= batches * 100, `${done} lines, after ${batches} batches`)
  const [, end = ''] = await second.said(/end (.*)\n/)
  assert.deepEqual(JSON.parse(end), {
    status: 'completed', summary: { total: 20_000, succeeded: 20_000, failed: 0 }, count: 20_000, numbers: 20_000,
  })
  second.child.kill('SIGKILL')
})

test('PGlite in a folder: a second process rejects all calls, and says why', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-pglite-'))
  t.after(() => { rmSync(folder, { recursive: true, force: true }) })
  const data = join(folder, 'data')
  const first = new ServerProcess(process.execPath, [...program(join(import.meta.dirname, 'pglite-process.ts')), data], {})
  const [, taskId = ''] = await first.said(/task (\S+)\n/)
  const pool = await PGlite.create(data)
  const { engine, store } = postgres({ pool })
  const tasks = createTasks({ engine, store, definitions: [], worker: false })
  for (let n = 0; n < 2; n++) {
    await assert.rejects(tasks.get(taskId), new RegExp(`is in use by process ${String(first.child.pid)}\\.`))
  }
  await tasks.close()
  await store.close()
  await pool.close()
})
