import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import express from 'express'
import express4 from 'express4'
import { createTasks, defineTask, json, router, taskEndpoints } from 'longhaul'
import { readJson } from 'longhaul/http'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

const BODY = { 'content-type': 'application/json' }

const report = defineTask({ name: 'report', run: (input: unknown) => ({ input }) })

/** Posts a body to a task and to a handler that reads JSON. Returns the code and pointer of each. */
async function post(parsers: readonly (() => unknown)[], body: string): Promise<unknown[]> {
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handler = toNode(
    router({
      'POST /reports': endpoints.submit(report),
      'POST /echo': async (request) => json(200, await readJson(request, { maxBodyBytes: 1000 })),
    }),
  )
  const app = express4()
  for (const parser of parsers) app.use(parser() as ReturnType<typeof express4.json>)
  app.use(handler)
  const server = await listen(createServer(app))
  try {
    return await Promise.all(
      [
        ['/reports', {}],
        ['/reports', { prefer: 'respond-async' }],
        ['/echo', {}],
      ].map(async ([path, headers]) => {
        const response = await fetch(`${server.url}${path as string}`, {
          method: 'POST',
          headers: { ...BODY, ...(headers as object) },
          body,
        })
        const { code, details } = (await response.json()) as { code?: string; details?: { pointer: string }[] }
        return [response.status, code, details?.[0]?.pointer]
      }),
    )
  } finally {
    await server.close()
    await tasks.close()
  }
}

const VALUES = ['12345678901234567890', '1e400', '-1e999', '"\\ud800"']

for (const [name, parsers] of Object.entries({
  'no parser': [],
  'express.json of Express 5': [express.json],
  'express.json of Express 4': [express4.json],
  'express.raw': [() => express.raw({ type: '*/*' })],
})) {
  describe(`behind ${name}`, () => {
    test('a value that JavaScript cannot represent gets an inexact_value in tasks, synchronous requests and readJson', async () => {
      for (const value of VALUES) {
        const rejected = [400, 'inexact_value', '/a/0/n']
        assert.deepEqual(await post(parsers, `{"a":[{"n":${value}}]}`), [rejected, rejected, rejected], value)
      }
    })
    test('exact values are accepted', async () => {
      const accepted = await post(parsers, '{"n":[9007199254740991,0.1,1.5e10,-0,"12345678901234567890"]}')
      assert.deepEqual(
        accepted.map((each) => (each as unknown[])[0]),
        [200, 202, 200],
      )
    })
  })
}
