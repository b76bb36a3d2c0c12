// Writes and reads a large blob in PostgreSQL with little memory, as a child process.
import { createHash } from 'node:crypto'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'

const SIZE = Number(process.env['LONGHAUL_TEST_SIZE'])
const PIECE = 100_000
const pool = new pg.Pool({ connectionString: process.env['LONGHAUL_TEST_DATABASE'] })
const { blobs } = postgres({ pool, timeoutMs: 20_000 })

async function writeAndRead(): Promise<{ readonly size: number, readonly isSame: boolean }> {
  const written = createHash('sha256')
  const content = async function* (): AsyncGenerator<Uint8Array> {
    const piece = Buffer.alloc(PIECE)
    for (let at = 0; at < SIZE; at += PIECE) {
      // The same buffer again, with other bytes.
      piece.writeDoubleLE(at)
      const part = piece.subarray(0, Math.min(PIECE, SIZE - at))
      written.update(part)
      yield part
    }
  }
  const { size } = await blobs.put('large', content(), { ttlMs: 600_000 })
  const read = createHash('sha256')
  for await (const chunk of await blobs.open('large') ?? []) read.update(chunk)
  return { size, isSame: read.digest('hex') === written.digest('hex') }
}

// The test asks for a port, although this process listens on none.
process.send?.({ port: 0 })
process.on('message', (message) => {
  if (message === 'memory')
    process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024, rss: process.memoryUsage().rss })
  else void writeAndRead().then((outcome) => process.send?.(outcome))
})
process.on('disconnect', () => process.exit())
