// Processes that are killed in the middle of an upload; other ones take the rest.
import assert from 'node:assert/strict'
import { createHash, randomBytes, randomInt } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { Random } from '../../soak/random.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisForFile } from '../../servers/redis-server.js'
import { program } from '../../servers/program.js'

const PARTIAL = 'application/partial-upload'
const SIZE = 3_000_000
/** `partBytes` of the process. */
const PART = 65_536
const KILLS = 4

stopAfterwards()

function start(url: string, folder: string): ServerProcess {
  return new ServerProcess(process.execPath, [...program('test/faults/uploads/process.ts'), url, folder], {})
}

/**
 * Sends the rest of the content, and kills the process when it has acknowledged `target` bytes in a
 * 104. Returns the number of bytes that it had acknowledged.
 */
async function killWhileSending(
  victim: ServerProcess, path: string, bytes: Uint8Array, offset: number, target: number,
): Promise<number> {
  const req = request(`${await victim.url()}${path}`, {
    method: 'PATCH',
    headers: {
      'content-type': PARTIAL, 'upload-offset': offset, 'upload-complete': '?1', 'upload-draft-interop-version': '8',
      'content-length': bytes.length - offset,
    },
  })
  req.on('error', () => undefined)
  let acknowledged = offset
  req.on('information', ({ headers }) => {
    acknowledged = Number(headers['upload-offset'])
    if (acknowledged >= target) victim.child.kill('SIGKILL')
  })
  // No more than is needed: a process that stores faster than its client reads would leave nothing to kill.
  req.write(bytes.subarray(offset, Math.min(target + 2 * PART, SIZE - 1)))
  await victim.exited
  return acknowledged
}

async function offsetAt(server: ServerProcess, path: string): Promise<number> {
  const answer = await fetch(`${await server.url()}${path}`, { method: 'HEAD' })
  assert.equal(answer.status, 204)
  return Number(answer.headers.get('upload-offset'))
}

async function uploadWithKills(url: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-uploads-'))
  after(() => { rmSync(folder, { recursive: true, force: true }) })
  const seed = randomInt(2 ** 31)
  const random = new Random(seed)
  const bytes = randomBytes(SIZE)
  const servers = [start(url, folder), start(url, folder)]
  const created = await fetch(`${await (servers[0] as ServerProcess).url()}/films`, {
    method: 'POST', headers: { 'upload-complete': '?0', 'upload-length': String(SIZE) },
  })
  assert.equal(created.status, 201)
  const path = String(created.headers.get('location'))
  let offset = 0
  for (let kills = 0; kills < KILLS; kills++) {
    const [victim, heir] = servers.splice(0) as [ServerProcess, ServerProcess]
    const target = offset + random.between(0, 0.7 * (SIZE - offset) / (KILLS - kills))
    const acknowledged = await killWhileSending(victim, path, bytes, offset, target)
    const next = await offsetAt(heir, path)
    assert.ok(next >= acknowledged && next < SIZE, `${acknowledged} to ${next}, seed ${seed}`)
    offset = next
    servers.push(heir, start(url, folder))
  }
  const last = await fetch(`${await (servers[1] as ServerProcess).url()}${path}`, {
    method: 'PATCH', body: bytes.subarray(offset),
    headers: { 'content-type': PARTIAL, 'upload-offset': String(offset), 'upload-complete': '?1' },
  })
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  assert.deepEqual([last.status, await last.json()], [200, { sha256 }], `seed ${seed}`)
  assert.equal(readFileSync(join(folder, 'runs'), 'utf8'), 'run\n')
}

describe('an upload whose processes are killed one after the other', () => {
  test('has identical bytes and runs its handler once, with a store on Redis and blobs in a folder', async () => {
    await uploadWithKills((await redisForFile()).url)
  })

  test('has identical bytes and runs its handler once, on PostgreSQL', async () => {
    await uploadWithKills((await postgresForFile()).url)
  })
})
