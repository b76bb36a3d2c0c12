// Direct uploads with an Idempotency-Key whose process is killed: another process takes the rest.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { UploadResult } from '../../../src/ndjson/index.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { createTables, said } from './site.js'
import { BATCH, openSite } from './work.js'
import { program } from '../../servers/program.js'

stopAfterwards()
/** After each kill, the claim of the dead process has to expire: up to 30 s. */
const KILLS = Number(process.env['KILLS'] ?? 2)
const LINES = Number(process.env['LINES'] ?? 12_000)
const numbers = Array.from({ length: LINES }, (_, n) => n)
const body = Buffer.from(numbers.map((n) => `{"n":${n},"text":"${'x'.repeat(150)}"}\n`).join(''))

const databases = { Redis: (await redisForFile()).url, PostgreSQL: await postgresUrl() }

/** An answer: the report, or an error. */
interface Answer {
  readonly status: number
  readonly json: Partial<UploadResult> & { code?: string, committed?: { bytes: number } }
}

async function post(server: ServerProcess, path: string, bytes: Uint8Array, headers: Record<string, string>): Promise<Answer> {
  const response = await fetch(`${await server.url()}${path}`, {
    method: 'POST', body: bytes,
    headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': '"import-7"', ...headers },
  })
  return { status: response.status, json: await response.json() as Answer['json'] }
}

/** Asks where the upload continues. */
async function committed(server: ServerProcess, path: string): Promise<number> {
  const { status, json } = await post(server, path, Buffer.of(), { 'upload-offset': '0' })
  assert.deepEqual([status, json.code], [409, 'upload_incomplete'])
  return json.committed?.bytes ?? NaN
}

/** Sends the rest until the claim of the process that died has expired. */
async function sendRest(server: ServerProcess, path: string): Promise<Answer> {
  for (;;) {
    const bytes = await committed(server, path)
    const answer = await post(server, path, body.subarray(bytes), { 'upload-offset': String(bytes) })
    if (answer.json.code !== 'idempotent_request_running') return answer
    await sleep(500)
  }
}

/** Sends the rest, and kills the process once it has written this many batches of it. */
async function killWhileSending(server: ServerProcess, path: string, batches: number): Promise<void> {
  const url = await server.url()
  const isDead = said(server, new RegExp(`wrote ${batches}\n`)).then(() => {
    server.child.kill('SIGKILL')
    return server.exited
  })
  for (let isOver = false; !isOver;) {
    const bytes = await committed(server, path).catch(() => undefined)
    if (bytes === undefined) break
    isOver = await new Promise<boolean>((resolve) => {
      const req = request(`${url}${path}`, {
        method: 'POST', headers: {
          'content-type': 'application/x-ndjson', 'idempotency-key': '"import-7"',
          'upload-offset': bytes, 'content-length': body.length - bytes,
        },
      }, (response) => {
        response.resume()
        // Another process still has the claim.
        assert.equal(response.statusCode, 409)
        response.on('end', () => { resolve(false) })
      })
      req.on('error', () => { resolve(true) })
      // The last byte is missing, so the upload cannot end before the process does.
      req.write(body.subarray(bytes, body.length - 1))
    })
  }
  await isDead
}

await createTables(databases.PostgreSQL)

// All at once, because each of them waits for claims most of the time.
describe(`a direct upload whose process is killed ${KILLS} times`, { concurrency: true }, () => {
  for (const [name, url] of Object.entries(databases)) {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-direct-'))
    const site = openSite(url, folder)
    after(async () => {
      await site.close()
      rmSync(folder, { recursive: true, force: true })
    })
    const file = join(import.meta.dirname, 'direct-process.ts')
    const start = () => new ServerProcess(process.execPath, [...program(file), url, folder], {})

    /** Uploads the body. Returns what all processes printed, and the answer. */
    async function run(path: string): Promise<{ out: string, answer: Answer }> {
      const perKill = Math.floor(LINES / BATCH / (KILLS + 1))
      let out = ''
      for (let kills = 0; kills < KILLS; kills++) {
        const victim = start()
        await killWhileSending(victim, path, 1 + Math.floor(Math.random() * perKill))
        out += victim.out
      }
      const last = start()
      const answer = await sendRest(last, path)
      const again = await post(last, path, body, {})
      assert.deepEqual(again, answer, 'a client that sends all bytes gets the same report')
      return { out: out + last.out, answer }
    }

    function checkReport({ status, json }: Answer): void {
      assert.equal(status, 200, JSON.stringify(json))
      assert.deepEqual(json.summary, { total: LINES, succeeded: LINES, failed: 0 })
    }

    test(`${name}, without a cursor each line is written, at most one batch twice for each kill, with the report of the whole`, async () => {
      const { answer } = await run('/at-least-once')
      checkReport(answer)
      const rows = await site.rows.of('at-least-once')
      assert.deepEqual([...new Set(rows)], numbers)
      assert.ok(rows.length - LINES <= KILLS * BATCH, `${rows.length - LINES} lines were written again`)
    })

    test(`${name}, with a cursor each line is written once, with the report of the whole`, async () => {
      const { out, answer } = await run('/once')
      checkReport(answer)
      const ids = new Set(out.match(/(?<=^upload ).+$/gm))
      assert.equal(ids.size, 1, 'all processes see one upload')
      assert.deepEqual(await site.rows.of([...ids].join()), numbers)
    })
  }
})
