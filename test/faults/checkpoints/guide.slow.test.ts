// The samples of the guide that write each record once, as they stand, with a worker that is
// suspended while another one takes over.
import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { build } from 'esbuild'
import { createTasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import type { bulkCreate } from '../../../src/bulk/index.js'
import { newId } from '../../../src/runtime/random-id.js'
import type { UploadTask } from '../../../src/ndjson/index.js'
import { blocks } from '../../http/kit/doc-page.js'
import { root, ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { projectFolder } from '../../http/kit/project-folder.js'
import { eventually } from '../../http/kit/wire.js'
import { postgresUrl } from '../../servers/postgres-url.js'

stopAfterwards()
const url = new URL(await postgresUrl())
const env = {
  PGHOST: url.hostname, PGPORT: url.port, PGUSER: decodeURIComponent(url.username),
  PGPASSWORD: decodeURIComponent(url.password), PGDATABASE: url.pathname.slice(1),
}
// The samples connect as their environment says, as pg does.
Object.assign(process.env, env)
const COUNT = 20_000
const emails = Array.from({ length: COUNT }, (_, at) => `user-${at}@example.com`)
const kinds = {
  importUsers: {
    prefix: 'ndjson-upload',
    body: emails.map((email) => `${JSON.stringify({ email })}\n`).join(''),
    more: {},
  },
  createUsers: {
    prefix: 'bulk-create',
    body: JSON.stringify(emails.map((email) => ({ email }))),
    more: { items: COUNT, list: 'none' },
  },
}
type Kind = keyof typeof kinds
type Sample = Record<Kind, { readonly task: UploadTask & ReturnType<typeof bulkCreate>['task'] }>

describe('the samples of docs/guide/imports.md, with a worker that was suspended', () => {
  const pool = new pg.Pool({ connectionString: url.href })
  let folder: string

  before(async () => {
    folder = await projectFolder('guide-checkpoints')
    await pool.query(
      'create table users (id serial primary key, email text); create table imports (id text primary key, cursor text); create table bulk_tasks (id text primary key, cursor text)',
    )
  })
  after(async () => {
    await pool.end()
    await rm(folder, { recursive: true, force: true })
  })

  /** Compiles the sample that exports this name, and the worker that runs it. */
  async function compile(kind: Kind): Promise<{ sample: string, worker: string }> {
    const page = await readFile(join(root, 'docs/guide/imports.md'), 'utf8')
    const source = blocks(page, 'ts').find((text) => text.includes(`export const ${kind} =`))
    assert.ok(source !== undefined)
    const entry = join(folder, `${kind}.ts`)
    await writeFile(entry, source)
    const [sample, worker] = [join(folder, `${kind}.mjs`), join(folder, 'worker.mjs')]
    for (const [from, outfile] of [[entry, sample], [join(import.meta.dirname, 'guide-worker.ts'), worker]] as const) {
      await build({
        entryPoints: [from], outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external',
        tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
      })
    }
    return { sample, worker }
  }

  async function suspended(t: TestContext, kind: Kind, statement: 'begin' | 'commit'): Promise<void> {
    await pool.query('truncate users, imports, bulk_tasks')
    const { sample, worker } = await compile(kind)
    const start = (...stop: string[]): ServerProcess => {
      const process_ = new ServerProcess(process.execPath, [worker, sample, kind, ...stop], env)
      t.after(() => process_.child.kill('SIGKILL'))
      return process_
    }
    const engine = postgres({ pool })
    const { prefix, body, more } = kinds[kind]
    const blob = `${prefix}/${newId()}`
    const bytes = Buffer.from(body)
    await engine.blobs.put(blob, (async function* () { yield bytes })(), { ttlMs: 3_600_000 })
    const { [kind]: { task } } = await import(sample) as Sample
    const tasks = createTasks({ ...engine, definitions: [task], worker: false })
    t.after(async () => {
      await tasks.close({ drainMs: 0 })
      await engine.store.close()
      await engine.blobs.close()
    })
    const first = start(statement, '18')
    await first.said(/ready/)
    const { taskId } = await tasks.submit(task, { blob, coding: 'identity', size: bytes.length, ...more } as never)
    await first.said(/suspended/)
    const rows = async () =>
      (await pool.query<{ email: string }>('select email from users order by id')).rows.map(({ email }) => email)
    const before_ = (await rows()).length
    assert.ok(before_ > 0 && before_ < COUNT, String(before_))
    const second = start()
    await second.said(/ready/)
    // It has written, or it waits for the transaction of the first worker.
    await eventually(
      async () => (await rows()).length > before_ || (await isBlocked()),
      'the second worker has taken over',
    )
    first.child.kill('SIGCONT')
    const end = await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.equal(end?.status, 'completed', `${first.out}${second.out}${second.err}`)
    await eventually(
      async () =>
        (
          await pool.query(
            "select 1 from pg_stat_activity where state like 'idle in%' and datname = current_database()",
          )
        ).rowCount === 0,
      'every transaction has ended',
    )
    const written = await rows()
    assert.equal(written.length, COUNT)
    assert.equal(new Set(written).size, COUNT)
    assert.deepEqual((end.result as { summary: unknown }).summary, { total: COUNT, succeeded: COUNT, failed: 0 })
  }

  async function isBlocked(): Promise<boolean> {
    const { rowCount } = await pool.query(
      "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    )
    return rowCount !== null && rowCount > 0
  }

  for (const kind of ['importUsers', 'createUsers'] as const) {
    for (const statement of ['begin', 'commit'] as const) {
      test(`${kind} writes each record once if a worker is suspended before a ${statement}`, async (t) => {
        await suspended(t, kind, statement)
      })
    }
  }
})
