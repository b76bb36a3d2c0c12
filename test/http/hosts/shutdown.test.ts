// A real process under load gets a SIGTERM: requests under way are completed, or are told that the server shuts down.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { redisUrl } from '../../servers/redis-server.js'
import { startProcess, stopAfterwards } from '../kit/process.js'

stopAfterwards()

const CLIENTS = 24

interface Said { readonly status: number, readonly code: string | undefined }

/** Sends one request. Rejects if the connection ends without a response. */
async function post(url: string, agent: Agent, prefer: string): Promise<Said> {
  const sent = request(`${url}/api/long-running-task`, {
    method: 'POST',
    agent,
    headers: { 'authorization': 'Bearer demo-writer', 'content-type': 'application/json', prefer },
  })
  sent.end(JSON.stringify({ task: 'wait', data: { ms: 1 } }))
  const [response] = await once(sent, 'response') as [IncomingMessage]
  let text = ''
  for await (const piece of response) text += String(piece)
  return { status: response.statusCode ?? 0, code: (JSON.parse(text) as { code?: string }).code }
}

for (const engine of ['memory', 'Redis'] as const) {
  test(
    `24 clients on ${engine} get no queue_full during SIGTERM, and the log has one line for each code`,
    { timeout: 120_000 },
    async () => {
      const redis = engine === 'Redis' ? await redisUrl() : undefined
      for (let round = 0; round < 2; round++) {
        const server = startProcess({ RATE_LIMIT: '999999999', ...(redis !== undefined && { REDIS_URL: redis }) })
        const url = await server.url()
        const said: Said[] = []
        const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
        const ended = Promise.allSettled(
          Array.from({ length: CLIENTS }, async (_, at) => {
            for (;;) said.push(await post(url, agent, at % 2 === 0 ? 'respond-async' : 'handling=strict'))
          }),
        )
        while (said.length < 200) await pause(10)
        server.child.kill('SIGTERM')
        await ended
        agent.destroy()
        assert.deepEqual(await server.exited, { code: 0, signal: null })
        const refused = said.filter(({ status }) => status !== 200 && status !== 202)
        // All clients are one owner, with more than 100 unfinished tasks at times.
        assert.deepEqual(
          refused.filter(({ code }) => code !== 'shutting_down' && code !== 'too_many_tasks'),
          [],
        )
        assert.ok(server.err.split('\n').filter((line) => line.includes('shutting_down')).length <= 1, server.err)
        assert.doesNotMatch(server.err, /queue_full|\n +at /)
      }
    },
  )
}
