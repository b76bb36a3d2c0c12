import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually } from '../../kit/wait.js'
import { openSqliteFile } from '../../servers/open-database.js'
import { program } from '../../servers/program.js'
import { sqliteFolder, sqliteUrl } from '../../servers/sqlite.js'

stopAfterwards()

function start(url: string, role: 'submits' | 'runs', first = 0): ServerProcess {
  const file = join(import.meta.dirname, 'process.ts')
  return new ServerProcess(process.execPath, [...program(file), url, role, String(first)], {})
}

/** Returns the accepted tasks of a process by their ids. */
function acceptedBy({ out }: ServerProcess): [id: string, n: number][] {
  return [...out.matchAll(/^accepted (\S+) (\d+)$/gm)].map(([, id = '', n]) => [id, Number(n)])
}

/** Checks that each accepted task completes, with its own input. */
async function allComplete(url: string, accepted: ReadonlyMap<string, number>): Promise<void> {
  const { parts: { engine }, close } = openSqliteFile(url)
  for (const [id, n] of accepted) {
    await eventually(async () => (await engine.read(id))?.status === 'completed', 30_000, `${id} completes`)
    assert.equal((await engine.read(id))?.result, `{"n":${String(n)}}`)
  }
  await close()
}

test('processes that are killed at any moment lose no accepted task', async () => {
  const url = await sqliteUrl()
  const accepted = new Map<string, number>()
  for (let round = 0; round < 8; round++) {
    const killed = start(url, 'submits', round * 1_000_000)
    await killed.said(/ready/)
    await eventually(() => acceptedBy(killed).length > 20 + 7 * round, 30_000, 'tasks are accepted')
    killed.child.kill('SIGKILL')
    await killed.exited
    for (const [id, n] of acceptedBy(killed)) accepted.set(id, n)
  }
  start(url, 'runs')
  await allComplete(url, accepted)
})

test('a copy of the file of a running process contains all accepted tasks, as after a power failure', async () => {
  const url = await sqliteUrl()
  const copy = join(sqliteFolder(), 'copy.db')
  const running = start(url, 'submits')
  await running.said(/accepted \S+ 50\n/)
  running.child.kill('SIGSTOP')
  const accepted = new Map(acceptedBy(running))
  // Without the index of the log, which is in memory only.
  for (const suffix of ['', '-wal']) copyFileSync(url.slice('sqlite:'.length) + suffix, copy + suffix)
  running.child.kill('SIGKILL')
  start(`sqlite:${copy}`, 'runs')
  await allComplete(`sqlite:${copy}`, accepted)
})
