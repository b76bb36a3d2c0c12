// A process that is killed while it writes a blob.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, test } from 'node:test'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { Site } from './site.js'
import { eventually } from '../../kit/wait.js'

test('a killed put leaves the old blob in place, and its chunks are swept', async () => {
  const database = await postgresForFile({ fsync: true })
  const site = await Site.start(database)
  await site.works()
  await site.stopLoad()
  const before = (await site.client.ask('GET', '/blobs/key')).text
  const put = request(`${site.client.url}/blobs/key`, { method: 'PUT' })
  put.on('error', () => undefined)
  put.write(Buffer.alloc(1 << 20, 'y'))
  const chunks = async (): Promise<unknown> => (
    (await database.query('select count(*)::int as count from longhaul.blob_chunks'))[0]?.['count']
  )
  // Three chunks of the old blob, three of the new one; the fourth waits for more content.
  await eventually(async () => await chunks() === 6, 10_000, 'chunks are written')
  site.process.child.kill('SIGKILL')
  await site.process.exited

  const pool = new pg.Pool({ connectionString: database.url })
  const { blobs } = postgres({ pool })
  after(() => blobs.close().then(() => pool.end()))
  const read: Uint8Array[] = []
  for await (const chunk of await blobs.open('/blobs/key') ?? []) read.push(chunk)
  assert.equal(Buffer.concat(read).toString(), before)
  await blobs.sweep()
  assert.equal(await chunks(), 6, 'the lease of the writer lasts for 15 minutes')
  await database.query("update longhaul.blob_versions set lease_until = lease_until - interval '15 minutes'")
  await blobs.sweep()
  assert.equal(await chunks(), 3)
})
