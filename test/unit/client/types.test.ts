import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import type { OpenApiTask, ResultOf as ClientResult } from '../../../src/client/index.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { defineTask, type ResultOf } from '../../../src/tasks/definition/define.js'
import { fakeServer, json } from '../kit/fake-server.js'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
/** Compiles only for `true`. */
function holds<T extends true>(): T | undefined { return undefined }

const report = defineTask({
  name: 'report',
  input: jsonSchema<{ year: number }>({
    type: 'object',
    required: ['year'],
    properties: { year: { type: 'integer' } },
  }),
  run: async ({ year }) => ({ message: 'Here.', pages: year }),
})
const list = defineTask({ name: 'list', input: z.object({ tag: z.string() }), run: ({ tag }) => [tag] })

/** As openapi-typescript writes it. */
interface paths {
  '/reports': {
    get?: never
    post: {
      parameters: { query?: never }
      requestBody: { content: { 'application/json': { year: number } } }
      responses: {
        200: { headers: Record<string, unknown>, content: { 'application/json': { message: string, pages: number } } }
        202: { headers: Record<string, unknown>, content: { 'application/json': { taskId: string } } }
      }
    }
  }
  '/users': { get: { responses: { 200: { content: { 'application/json': string[] } } } } }
}

test('the input and the result of a definition type the client, without a cast', async () => {
  const { client, seen } = fakeServer(() => json({ message: 'Here.', pages: 3 }))
  const typed = client.task<typeof report>('/reports', { body: (data) => ({ task: 'report', data }) })
  const result = await typed.run({ year: 2025 })
  holds<Same<typeof result, { message: string, pages: number }>>()
  assert.equal(result.pages, 3)
  assert.equal(seen[0]?.body, '{"task":"report","data":{"year":2025}}')
  // @ts-expect-error a year is a number
  await typed.submit({ year: '2025' })
  const again = await typed.resume({ result: { message: '', pages: 1 } }).result({
    onProgress: ({ result: now }) => {
      holds<Same<typeof now, typeof result | undefined>>()
    },
  })
  holds<Same<typeof again, typeof result>>()
  assert.deepEqual(again, { message: '', pages: 1 })

  const ofList = client.task<typeof list>('/lists')
  assert.deepEqual([report.name, list.name, typeof ofList.run], ['report', 'list', 'function'])
  holds<Same<Parameters<typeof ofList.run>[0], { tag: string }>>()
  holds<Same<Awaited<ReturnType<typeof ofList.run>>, string[]>>()
})

test('an OpenAPI document types the client', async () => {
  const { client } = fakeServer(() => json({ message: 'Here.', pages: 3 }))
  const typed = client.task<OpenApiTask<paths, '/reports'>>('/reports')
  const result = await typed.run({ year: 2025 })
  holds<Same<typeof result, { message: string, pages: number }>>()
  assert.equal(result.pages, 3)
  // @ts-expect-error a year is needed
  await typed.run({})
  // `respond: 'always'` has no 200, so the result is a property of the 202.
  interface Later {
    '/later': {
      post: {
        responses: {
          202: {
            content: { 'application/json': { taskId: string; result?: unknown } & { result?: { pages: number } } }
          }
        }
      }
    }
    '/untyped': {
      post: { responses: { 202: { content: { 'application/json': { taskId: string; result?: unknown } } } } }
    }
  }
  holds<Same<ClientResult<OpenApiTask<Later, '/later'>>, { pages: number }>>()
  holds<Same<ClientResult<OpenApiTask<Later, '/untyped'>>, unknown>>()
  // @ts-expect-error there is no such path
  type Wrong = OpenApiTask<paths, '/none'>
  holds<Same<ClientResult<OpenApiTask<paths, '/users'>>, unknown>>()
  assert.ok(holds<Same<Wrong, Wrong>>() === undefined)
})

test('a result has the same type on both sides', () => {
  const none = defineTask({ name: 'none', run: () => undefined })
  const one = defineTask({ name: 'one', run: () => ({ at: new Date(0) }) })
  assert.ok(holds<Same<ClientResult<typeof none>, ResultOf<typeof none>>>() === undefined)
  assert.ok(holds<Same<ClientResult<typeof none>, null>>() === undefined)
  assert.ok(holds<Same<ClientResult<typeof one>, ResultOf<typeof one>>>() === undefined)
  assert.ok(holds<Same<ClientResult<typeof one>, { at: string }>>() === undefined)
  assert.deepEqual([none.name, one.name], ['none', 'one'])
})
