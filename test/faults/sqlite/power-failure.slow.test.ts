// A disk that loses what was not synced. The system calls of a real process say what was.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { program } from '../../servers/program.js'
import { openSqlite, sqliteFolder } from '../../servers/sqlite.js'
import { strace } from '../../servers/strace.js'
import { Random } from '../../soak/random.js'
import { callsOf, replay, type Moment } from './lossy-disk.js'

stopAfterwards()
const kept = sqliteFolder()
const TRACED = 'openat,close,pwrite64,ftruncate,fsync,fdatasync,write'
/** Tasks that the process accepts before its power fails. */
const ACCEPTED = 150

/** Records a process that accepts tasks and runs them. */
async function record(synchronous: 'full' | 'normal'): Promise<{ readonly path: string, readonly calls: string[] }> {
  const [path, folder] = [join(sqliteFolder(), 'data.db'), sqliteFolder()]
  const submits = program(join(import.meta.dirname, 'process.ts'))
  const traced = new ServerProcess(strace(), [
    '-ff', '-xx', '-s', '10000000', '-qq', '-e', 'signal=none', '-e', `trace=${TRACED}`, '-o', join(folder, 'calls'),
    process.execPath, ...submits, `sqlite:${path}`, 'submits', '0', synchronous,
  ], {})
  await traced.said(new RegExp(`accepted \\S+ ${String(ACCEPTED)}\n`))
  // strace and the process are one group.
  process.kill(-Number(traced.child.pid), 'SIGKILL')
  await traced.exited
  return { path, calls: callsOf(folder, path) }
}

/** Opens what a disk has kept. Returns the ids of all tasks in it, after a check of the whole file. */
function tasksIn(moment: Moment, path: string, isKept: () => boolean): Set<string> {
  const folder = mkdtempSync(join(kept, 'at-'))
  for (const suffix of ['', '-wal'])
    writeFileSync(join(folder, `data.db${suffix}`), moment.contentOf(path + suffix, isKept))
  const database = openSqlite(join(folder, 'data.db'))
  try {
    assert.deepEqual(
      database
        .prepare('PRAGMA integrity_check')
        .all()
        .map((row) => Object.values(row as object)),
      [['ok']],
    )
    const [table] = database.prepare('SELECT 1 FROM sqlite_master WHERE name = \'longhaul_tasks\'').all()
    const rows =
      table === undefined ? [] : (database.prepare('SELECT id FROM longhaul_tasks').all() as { readonly id: string }[])
    return new Set(rows.map(({ id }) => id))
  } finally {
    database.close()
    rmSync(folder, { recursive: true })
  }
}

/** Calls `check` with the acknowledged tasks, and those that a disk has kept, at many moments. */
function atEachMoment(
  { path, calls }: { readonly path: string, readonly calls: string[] }, share: number,
  check: (acknowledged: readonly string[], kept: ReadonlySet<string>) => void,
): void {
  const random = new Random(36)
  let moments = 0
  replay(calls, (moment) => {
    if (++moments % 5 !== 0) return
    const acknowledged = [...moment.printed.matchAll(/^accepted (\S+) /gm)].map(([, id = '']) => id)
    check(acknowledged, tasksIn(moment, path, () => random.next() < share))
  })
  assert.ok(moments > ACCEPTED, `${String(moments)} moments`)
}

test('a disk that loses all unsynced writes still has each acknowledged task if synchronous is full', async () => {
  let most = 0
  const recorded = await record('full')
  for (const share of [0, 0.5]) {
    atEachMoment(recorded, share, (acknowledged, kept) => {
      most = Math.max(most, acknowledged.length)
      assert.deepEqual(acknowledged.filter((id) => !kept.has(id)), [], `of ${String(acknowledged.length)}`)
    })
  }
  assert.ok(most > 100, `${String(most)} tasks were acknowledged`)
})

test('a disk that loses all unsynced writes may lack the last tasks if synchronous is normal, and its file is intact', async () => {
  let lost = 0
  atEachMoment(await record('normal'), 0.5, (acknowledged, kept) => {
    lost += acknowledged.filter((id) => !kept.has(id)).length
  })
  assert.ok(lost > 0, 'the disk of the test loses nothing')
})
