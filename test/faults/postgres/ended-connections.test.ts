// PostgreSQL ends connections in the moment in which they become ready: a shutdown, a limit of connections, a pooler.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createConnection, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { postgresForFile } from '../../servers/postgres-server.js'
import { program } from '../../servers/program.js'

const server = await postgresForFile()
const poolProcess = join(import.meta.dirname, 'pool-process.ts')

/** A message of PostgreSQL: `FATAL 57P01 terminating connection`. */
const TERMINATED = message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
/** The server takes statements, and no transaction is open. */
const READY = message('Z', 'I')

function message(type: string, text: string): Buffer {
  const bytes = Buffer.alloc(5 + text.length)
  bytes.write(type, 'latin1')
  bytes.writeInt32BE(4 + text.length, 1)
  bytes.write(text, 5, 'latin1')
  return bytes
}

/** Ends the first `count` connections to PostgreSQL, with an error in the packet that makes them ready. */
async function endingProxy(t: TestContext, count: number): Promise<{ readonly port: number, ended: number }> {
  const proxy = createServer((near) => {
    const far = createConnection({ port: server.port, host: '127.0.0.1' })
    for (const socket of [near, far]) socket.on('error', () => undefined)
    near.on('close', () => { far.destroy() })
    near.pipe(far)
    far.on('data', (data) => {
      if (state.ended >= count || !data.subarray(-READY.length).equals(READY)) return void near.write(data)
      state.ended++
      near.end(Buffer.concat([data, TERMINATED]))
    })
    far.on('end', () => { near.end() })
  })
  await new Promise<void>((resolve) => { proxy.listen(0, '127.0.0.1', resolve) })
  t.after(() => proxy.close())
  const state = { port: (proxy.address() as AddressInfo).port, ended: 0 }
  return state
}

describe('a connection that PostgreSQL ends right after it became ready does not end the process', () => {
  for (const use of ['store', 'transaction', 'listen', 'engine', 'application']) {
    test(`used by: ${use}`, { timeout: 60_000 }, async (t) => {
      const proxy = await endingProxy(t, 3)
      const { stdout } = await promisify(execFile)(
        process.execPath, [...program(poolProcess), server.urlAt(proxy.port), use], { timeout: 50_000 },
      )
      assert.equal(stdout, 'works\n')
      assert.equal(proxy.ended, 3)
    })
  }
})
