import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext } from 'node:test'
import { createTasks } from 'longhaul'
import pg from 'pg'
import { ServerProcess } from '../../http/kit/process.js'
import { definitionsOf, openSite, type EngineTimes } from './work.js'
import { program } from '../../servers/program.js'

/** A web process, which runs nothing, and its workers on one database. */
export async function openWeb(url: string, times: EngineTimes = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-checkpoints-'))
  if (url.startsWith('postgres')) await createTables(url)
  const site = openSite(url, folder, times)
  const definitions = definitionsOf(site)
  const tasks = createTasks({ ...site.engine, definitions: Object.values(definitions), worker: false })
  after(async () => {
    await tasks.close({ drainMs: 0 })
    await site.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { tasks, definitions, site, worker: (t: TestContext) => startWorker(t, url, folder, times) }
}

/** Creates the tables of the imported rows. */
export async function createTables(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('create table rows (task text, n int, at serial); create table cursors (task text primary key, cursor text)')
  await client.end()
}

/** Starts a worker, which ends with the test. Resolves when it is ready. */
async function startWorker(
  t: TestContext, url: string, folder: string, { leaseMs }: EngineTimes,
): Promise<ServerProcess> {
  const file = join(import.meta.dirname, 'worker.ts')
  const lease = leaseMs === undefined ? [] : [String(leaseMs)]
  const worker = new ServerProcess(process.execPath, [...program(file), url, folder, ...lease], {})
  t.after(async () => {
    worker.child.kill('SIGKILL')
    await worker.exited
  })
  await said(worker, /ready/)
  return worker
}

/** Resolves with the match once the process has printed it. */
export async function said({ child, exited, ...worker }: ServerProcess, text: RegExp): Promise<RegExpExecArray> {
  let seen = worker.out
  const read = (piece: unknown): void => { seen += String(piece) }
  child.stdout?.on('data', read)
  try {
    for (;;) {
      const match = text.exec(seen)
      if (match) return match
      await Promise.race([once(child.stdout ?? child, 'data'), exited.then(() => assert.fail(`It ended before it said ${String(text)}`))])
    }
  } finally {
    child.stdout?.off('data', read)
  }
}
