import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createTasks } from 'longhaul'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually } from '../../kit/wait.js'
import { openSqliteFile } from '../../servers/open-database.js'
import { program } from '../../servers/program.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { LIMITS, limitedWork, openLedger } from './limited-work.js'

stopAfterwards()
const url = await sqliteUrl()
const path = url.slice('sqlite:'.length)

function start(): ServerProcess {
  const file = join(import.meta.dirname, 'limited-process.ts')
  return new ServerProcess(process.execPath, [...program(file), url], {})
}

test('processes that share a file obey its limits together, even if one is killed', async () => {
  const { parts, close } = openSqliteFile(url)
  const ledger = openLedger(path)
  const limited = limitedWork(path, () => undefined)
  const pools = { narrow: LIMITS }
  const tasks = createTasks({ ...parts, definitions: [limited], pools, worker: false })
  after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
    ledger.close()
  })
  const processes = [start(), start(), start()]
  for (const each of processes) await each.said(/ready/)
  // In the end only tasks of Ann wait.
  const owners = ['ann', 'ann', 'ann', 'bob', 'cid']
  for (let n = 0; n < 90; n++) {
    const owner = owners[n % 5] as string
    await tasks.submit(limited, { owner }, { owner })
  }
  const isCompleted = async (count: number) => {
    const query = { of: 'all', order: 'oldest', limit: 100, statuses: ['completed'] } as const
    return (await parts.engine.list(query)).length >= count
  }
  await eventually(() => isCompleted(15), 60_000, 'some tasks complete')
  const running = ledger.prepare('SELECT 1 FROM running WHERE pid = ?')
  const isRunning = ({ child: { pid } }: ServerProcess): boolean => running.all(pid as number).length > 0
  let killed: ServerProcess | undefined
  await eventually(() => {
    killed = processes.find(isRunning)
    return killed?.child.kill('SIGKILL') === true
  }, 60_000, 'a process with a run is killed')
  assert.ok(killed)
  await killed.exited
  ledger.prepare('DELETE FROM running WHERE pid = ?').run(killed.child.pid as number)
  processes.push(start())
  await eventually(() => isCompleted(90), 60_000, 'all tasks complete')
  const counts = processes.flatMap(({ out }) => [...out.matchAll(/^running (\d+) (\d+)$/gm)])
  assert.ok(counts.length >= 90)
  assert.equal(Math.max(...counts.map(([, own]) => Number(own))), LIMITS.maxRunningPerOwner)
  assert.equal(Math.max(...counts.map(([, , all]) => Number(all))), LIMITS.maxRunning)
})
