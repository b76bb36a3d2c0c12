import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext } from 'node:test'
import { createTasks } from 'longhaul'
import pg from 'pg'
import { ServerProcess } from '../../http/kit/process.js'
import { definitionsOf, openSite, type EngineOptions } from './work.js'
import { program } from '../../servers/program.js'

/** A web process, which runs nothing, and its workers on one database. */
export async function openWeb(url: string, options: EngineOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-checkpoints-'))
  if (url.startsWith('postgres')) await createTables(url)
  const site = openSite(url, folder, options)
  const definitions = definitionsOf(site)
  const tasks = createTasks({ ...site.engine, definitions: Object.values(definitions), worker: false })
  after(async () => {
    await tasks.close({ drainMs: 0 })
    await site.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { tasks, definitions, site, worker: (t: TestContext) => startWorker(t, url, folder, options) }
}

/** Creates the tables of the imported rows. */
export async function createTables(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query(
    'create table if not exists rows (task text, n int, at serial); create table if not exists cursors (task text primary key, cursor text)',
  )
  await client.end()
}

/** Starts a worker, which ends with the test. Resolves when it is ready. */
async function startWorker(
  t: TestContext, url: string, folder: string, options: EngineOptions,
): Promise<ServerProcess> {
  const file = join(import.meta.dirname, 'worker.ts')
  const worker = new ServerProcess(process.execPath, [...program(file), url, folder, JSON.stringify(options)], {})
  t.after(async () => {
    worker.child.kill('SIGKILL')
    await worker.exited
  })
  await worker.said(/ready/)
  return worker
}
