import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { createTasks } from 'longhaul'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { PROGRAM_OPTIONS, programFile } from '../../servers/program.js'
import { openParts } from '../kit/parts.js'
import { writing } from './work.js'
import { eventually } from '../../kit/wait.js'

const urls = { redis: await redisUrl(), postgres: await postgresUrl() }
const file = join(import.meta.dirname, 'worker.ts')

describe('a worker is killed while it writes a file', { concurrency: 2 }, () => {
  for (const kind of ['redis', 'postgres'] as const) {
    for (const end of ['completed', 'cancelled'] as const) {
      test(`on ${kind}, and its task is ${end}: no blob is left`, async (t) => {
        const folder = mkdtempSync(join(tmpdir(), 'longhaul-killed-'))
        const name = `killed_${randomBytes(6).toString('hex')}`
        const { parts, blobCount, close } = openParts(kind, { url: urls[kind], name, folder })
        const work = writing(async function* () { yield Buffer.alloc(10) })
        const definitions = [work]
        const accepting = createTasks({ ...parts, definitions, worker: false })
        const worker = fork(programFile(file), [kind, urls[kind], name, folder], { execArgv: [...PROGRAM_OPTIONS] })
        t.after(() => worker.kill('SIGKILL'))
        const writes = once(worker, 'message')
        const { taskId } = await accepting.submit(work, {})
        await writes
        const gone = once(worker, 'exit')
        worker.kill('SIGKILL')
        await gone
        assert.equal(await blobCount(), 1, 'the first file is there')
        if (end === 'cancelled') {
          assert.equal((await accepting.cancel(taskId))?.status, 'cancelled')
          await eventually(async () => await blobCount() === 0)
        } else {
          const other = openParts(kind, { url: urls[kind], name, folder })
          const tasks = createTasks({ ...other.parts, definitions })
          const done = await accepting.wait(taskId, { timeoutMs: 60_000 })
          assert.ok(done?.status === 'completed')
          assert.deepEqual(done.files?.map(({ size }) => size), [9, 10])
          await eventually(async () => await blobCount() === 2, 20_000)
          await tasks.close({ drainMs: 0 })
          await other.close()
        }
        await accepting.close({ drainMs: 0 })
        await close()
        rmSync(folder, { recursive: true, force: true })
      })
    }
  }
})
