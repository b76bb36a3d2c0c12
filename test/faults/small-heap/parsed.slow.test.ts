// Text that parses to many times its size: accepted bodies of 1 MiB of empty objects, in a process
// with a heap of 256 MiB and default options.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ask } from '../../http/kit/wire.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { SmallProcess } from '../kit/small-process.js'

const LENGTH = 349_000
/** Nearly 1 MiB as text, some 22 MiB once parsed. */
const BODY = Buffer.from(`[${'{},'.repeat(LENGTH - 1)}{}]`)
const BODIES = 10
const engines = { memory: 'memory', Redis: (await redisForFile()).url, PostgreSQL: await postgresUrl() }

for (const [name, ENGINE] of Object.entries(engines)) {
  describe(`${BODIES} bodies of 1 MiB of empty objects, with tasks in ${name}, in a process of 256 MiB`, () => {
    const ways: Readonly<Record<string, (n: number) => Record<string, string>>> = {
      'in the background': () => ({ prefer: 'respond-async' }),
      ...(name === 'memory' && {
        'directly': () => ({}),
        'in the background for as many callers': (n: number) => ({ 'prefer': 'respond-async', 'x-user': String(n) }),
      }),
    }
    for (const [way, headers] of Object.entries(ways)) {
      test(`are all run ${way}`, async () => {
        const server = await SmallProcess.start('parsed-server.ts', { heapMiB: 256, env: { ENGINE } })
        try {
          const post = (_: unknown, n: number) =>
            ask(server.port, 'POST', '/count', {
              body: BODY,
              headers: { 'content-type': 'application/json', ...headers(n) },
            })
          const responses = await Promise.all(Array.from({ length: BODIES }, post))
          for (const { status, body, headers: { location } } of responses) {
            if (way === 'directly') {
              assert.deepEqual([status, JSON.parse(body)], [200, LENGTH])
              continue
            }
            assert.equal(status, 202)
            const end = await ask(server.port, 'GET', location as string, { headers: { prefer: 'wait=60' } })
            const { status: state, result } = JSON.parse(end.body) as { status: string, result: number }
            assert.deepEqual([state, result], ['completed', LENGTH])
          }
        } finally {
          await server.stop()
        }
      })
    }
  })
}
