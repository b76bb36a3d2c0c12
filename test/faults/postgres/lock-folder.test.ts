// One process at a time has a folder, and a process that died no longer has it.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { lockFolder } from 'longhaul/postgres'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { program } from '../../servers/program.js'

stopAfterwards()

/** An empty folder, which is removed after the test. */
function parentFor(t: TestContext): string {
  const parent = mkdtempSync(join(tmpdir(), 'longhaul-lock-'))
  t.after(() => { rmSync(parent, { recursive: true, force: true }) })
  return parent
}

function start(folder: string): ServerProcess {
  return new ServerProcess(process.execPath, [...program(join(import.meta.dirname, 'lock-folder-process.ts')), folder], {})
}

/** Resolves to what the process says about its lock. */
async function outcome(child: ServerProcess): Promise<string> {
  const [said] = await child.said(/(locked|rejected .*)\n/)
  return said.trim()
}

async function end(child: ServerProcess, signal: NodeJS.Signals): Promise<void> {
  child.child.kill(signal)
  await child.exited
}

test('a folder that another process has is rejected, by every name of it', async (t) => {
  const parent = parentFor(t)
  const folder = join(parent, 'data')
  mkdirSync(folder)
  symlinkSync(folder, join(parent, 'link'))
  const first = start(folder)
  assert.equal(await outcome(first), 'locked')
  for (const name of [folder, `${folder}/`, join(parent, 'link')]) {
    await assert.rejects(lockFolder(name), new RegExp(`^Error: The folder .* is in use by process ${String(first.child.pid)}\\.`))
  }
  assert.equal(await lockFolder(join(parent, 'data2')), join(parent, 'data2'))
  await end(first, 'SIGKILL')
  assert.equal(await lockFolder(folder), folder)
  assert.equal(await lockFolder(folder), folder)
  assert.match(await outcome(start(folder)), new RegExp(`in use by process ${String(process.pid)}\\. .* Stop that process first`))
  assert.deepEqual(readdirSync(parent).filter((name) => name.startsWith('data.lock-')).length, 1, 'the lock of the dead process is gone')
})

test('of several processes that start together, at most one gets the folder', async (t) => {
  const folder = join(parentFor(t), 'data')
  await end(await locked(folder), 'SIGKILL')
  const outcomes = await Promise.all(Array.from({ length: 4 }, () => outcome(start(folder))))
  assert.ok(outcomes.filter((text) => text === 'locked').length <= 1, outcomes.join('\n'))
})

async function locked(folder: string): Promise<ServerProcess> {
  const child = start(folder)
  assert.equal(await outcome(child), 'locked')
  return child
}

test('a folder whose lock cannot be made is rejected with the reason', async (t) => {
  const parent = parentFor(t)
  await assert.rejects(lockFolder(join(parent, 'missing', 'data')), /^Error: No lock can be created beside the folder .*: .*EACCES/)
  await assert.rejects(lockFolder(join(parent, 'x'.repeat(120))), /^Error: No lock can be created beside the folder .*: its path is too long/)
})

test('another copy of the module in this process has the folder too', async (t) => {
  const folder = join(parentFor(t), 'data')
  const url = import.meta.resolve('../../../adapters/postgres/lock-folder.js')
  const copies = await Promise.all([1, 2].map(async (n) => (
    await import(`${url}?copy=${String(n)}`) as typeof import('../../../adapters/postgres/lock-folder.js')
  )))
  assert.notEqual(copies[0]?.lockFolder, copies[1]?.lockFolder)
  for (const copy of copies) assert.equal(await copy.lockFolder(folder), folder)
  assert.match(await outcome(start(folder)), /^rejected/)
})
