// Two processes share a folder of blobs, and the clock of one of them is wrong by more than a day.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { FolderBlobs } from 'longhaul/files'
import { skewedBy } from '../../servers/faketime.js'

const base = await mkdtemp(join(tmpdir(), 'longhaul-blobs-'))
after(() => rm(base, { recursive: true, force: true }))

async function* text(value: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(value)
}

const PROGRAM = `
import { FolderBlobs } from 'longhaul/files'
const blobs = new FolderBlobs(process.env.FOLDER, { shared: true })
async function* text(value) { yield Buffer.from(value) }
const seen = await blobs.stat('here')
await blobs.put('there', text('def'), { ttlMs: 60000 })
await blobs.sweep()
await blobs.close()
console.log(JSON.stringify({ seen: seen?.size, now: Date.now() }))
`

for (const seconds of [-90_000, 90_000]) {
  test(`blobs in a shared folder keep their lifetime in a process whose clock is off by ${String(seconds)} s`, async (t) => {
    const folder = join(base, String(seconds))
    const blobs = new FolderBlobs(folder, { shared: true })
    t.after(() => blobs.close())
    await blobs.put('here', text('abc'), { ttlMs: 60_000 })
    await writeFile(join(folder, 'young.partial'), 'half')
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', PROGRAM],
      {
        cwd: join(import.meta.dirname, '..', '..', '..'),
        env: { ...process.env, ...skewedBy(seconds), FOLDER: folder },
      },
    )
    const { seen, now } = JSON.parse(stdout) as { seen?: number; now: number }
    assert.ok(Math.abs((now - Date.now()) / 1000 - seconds) < 60, 'its clock is wrong')
    assert.equal(seen, 3, 'it sees what is live')
    assert.equal((await blobs.stat('here'))?.size, 3, 'it takes nothing away that is live')
    assert.equal((await blobs.stat('there'))?.size, 3, 'what it writes lives as long as it says')
    assert.ok((await readdir(folder)).includes('young.partial'), 'what somebody writes now was not abandoned')
  })
}
