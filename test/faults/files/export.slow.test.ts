// Exports whose worker is killed or stopped between and within parts, by real processes.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { on, once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { createTasks } from 'longhaul'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { PROGRAM_OPTIONS, programFile } from '../../servers/program.js'
import { exporting, KILLS, PART, RECORDS } from './export-work.js'
import { openParts } from '../kit/parts.js'
import { eventually } from '../../kit/wait.js'

const urls = { redis: await redisUrl(), postgres: await postgresUrl() }
const file = join(import.meta.dirname, 'export-worker.ts')

/** The size and the digest of each part of an undisturbed export. */
const expected = Array.from({ length: RECORDS / PART }, (_, part) => {
  const rows = Array.from({ length: PART }, (_, row) => part * PART + row)
  const text = `n,square\r\n${rows.map((n) => `${n},${n * n}\r\n`).join('')}`
  const digest = `sha-256=:${createHash('sha256').update(text).digest('base64')}:`
  return { name: `numbers-${String(part + 1).padStart(4, '0')}.csv`, size: text.length, digest }
})

describe(`the workers of an export end ${KILLS} times`, () => {
  for (const kind of ['redis', 'postgres'] as const) {
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      test(`on ${kind} by ${signal}: the export keeps finished parts and leaves no extra blob`, async (t) => {
        const folder = mkdtempSync(join(tmpdir(), 'longhaul-export-'))
        const name = `export_${randomBytes(6).toString('hex')}`
        const { parts, blobCount, close } = openParts(kind, { url: urls[kind], name, folder })
        const work = exporting()
        const accepting = createTasks({ ...parts, definitions: [work], worker: false })
        const start = () => {
          const worker = fork(programFile(file), [kind, urls[kind], name, folder], { execArgv: [...PROGRAM_OPTIONS] })
          t.after(() => worker.kill('SIGKILL'))
          return worker
        }
        const { taskId } = await accepting.submit(work, {})
        let finished = 0
        for (let end = 1; end <= KILLS; end++) {
          const worker = start()
          const at = Math.floor(RECORDS / (KILLS + 1) * end + Math.random() * PART)
          // The last worker has something left to do.
          const until = Math.min(at, RECORDS - 2 * PART)
          for await (const [event] of on(worker, 'message')) {
            const { from, n } = event as { from?: number, n?: number }
            if (from !== undefined) {
              assert.ok(from >= finished, `it began at ${from} after ${finished} records were kept`)
              assert.equal(from % PART, 0)
            }
            if (n !== undefined && n >= until) break
          }
          // The part before may just be on its way.
          finished = (Math.floor(until / PART) - 1) * PART
          const gone = once(worker, 'exit')
          worker.kill(signal)
          await gone
        }
        start()
        const done = await accepting.wait(taskId, { timeoutMs: 60_000 })
        assert.ok(done?.status === 'completed')
        const { records, parts: count } = done.result
        assert.deepEqual([records, count], [RECORDS, RECORDS / PART])
        assert.deepEqual(done.files?.map(({ name, size, digest }) => ({ name, size, digest })), expected)
        await eventually(async () => await blobCount() === RECORDS / PART, 20_000)
        await accepting.close({ drainMs: 0 })
        await close()
        rmSync(folder, { recursive: true, force: true })
      })
    }
  }
})
