import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { startProcess, stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'

const LIMIT = 100
const CONNECTIONS = 50
const REQUESTS = 1000

stopAfterwards()

/** Sends requests over many connections to all servers at once; how often each status came. */
async function flood(
  urls: readonly string[],
  headersOf: (at: number) => Record<string, string>,
): Promise<Record<number, number>> {
  const counts: Record<number, number> = {}
  let left = REQUESTS
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async (_, connection) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const url = new URL(urls[connection % urls.length] ?? '')
      for (let at = left--; at > 0; at = left--) {
        const status = await new Promise<number>((resolve, reject) => {
          request({ host: url.hostname, port: url.port, path: '/users', agent, headers: headersOf(at) }, (answer) => {
            answer.resume().on('end', () => {
              resolve(answer.statusCode ?? 0)
            })
          })
            .on('error', reject)
            .end()
        })
        counts[status] = (counts[status] ?? 0) + 1
      }
      agent.destroy()
    }),
  )
  return counts
}

test(
  'SPEC 8.2, 7.429: 50 connections over two processes on one Redis never exceed the limit, whatever headers they send',
  { timeout: 55_000 },
  async () => {
    const redis = await redisForFile()
    const env = {
      REDIS_URL: redis.url,
      WORKER: 'off',
      RATE_LIMIT: String(LIMIT),
      AUTH_TOKENS: 'a=ann:reader,b=bea:reader,c=ann:reader',
    }
    const processes = [startProcess(env), startProcess(env)]
    const urls = await Promise.all(processes.map((each) => each.url()))
    const spoof = (at: number): Record<string, string> => ({
      'x-forwarded-for': `203.0.113.${at % 250}`,
      'forwarded': `for=198.51.100.${at % 250}`,
      'x-real-ip': `192.0.2.${at % 250}`,
      'true-client-ip': `192.0.2.${at}`,
      'x-request-id': String(at),
      'idempotency-key': String(at),
    })

    // Two tokens of one subject share its limit.
    const ann = await flood(urls, (at) => ({ ...spoof(at), authorization: `Bearer ${at % 2 === 0 ? 'a' : 'c'}` }))
    assert.deepEqual(ann, { 200: LIMIT, 429: REQUESTS - LIMIT })

    // Nobody's requests count by address: wrong tokens make nobody else of them.
    const nobody = await flood(urls, (at) => ({
      ...spoof(at),
      ...(at % 2 === 0 && { authorization: `Bearer wrong-${at}` }),
    }))
    assert.deepEqual(nobody, { 401: LIMIT, 429: REQUESTS - LIMIT })

    const bea = await flood(urls, () => ({ authorization: 'Bearer b' }))
    assert.deepEqual(bea, { 200: LIMIT, 429: REQUESTS - LIMIT }, 'somebody else has a limit of her own')
    for (const each of processes) each.child.kill('SIGTERM')
    await Promise.all(processes.map((each) => each.exited))
  },
)
