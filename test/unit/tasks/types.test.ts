import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { z } from 'zod'
import { memory } from '../../../adapters/memory/index.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { ended } from '../kit/tasks.js'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
/** Compiles only for `true`. */
function holds<T extends true>(): T | undefined { return undefined }

const ofZod = defineTask({
  name: 'zod', input: z.object({ n: z.number(), at: z.string().transform((text) => text.length) }),
  run: (input) => {
    holds<Same<typeof input, { n: number; at: number }>>()
    return { total: input.n + input.at }
  },
})
const ofValibot = defineTask({
  name: 'valibot', input: v.object({ text: v.string() }),
  run: async ({ text }) => {
    holds<Same<typeof text, string>>()
    // @ts-expect-error the schema has no such member
    const missing = (input: { text: string }) => input.other as unknown
    assert.ok(missing)
    return [text]
  },
})
const ofJson = defineTask({
  name: 'json',
  input: jsonSchema<{ a: boolean }>({ type: 'object', required: ['a'], properties: { a: { type: 'boolean' } } }),
  check: (input) => {
    assert.ok(holds<Same<typeof input, { a: boolean }>>() === undefined && input.a)
  },
  run: ({ a }) => a,
})
const ofNothing = defineTask({
  name: 'nothing',
  run: (input) => {
    assert.ok(holds<Same<typeof input, unknown>>() === undefined && input)
  },
})

test('types flow from the schema through run to the result, without a cast', async () => {
  const { store, engine } = memory()
  const tasks = createTasks({ store, engine, definitions: [ofZod, ofValibot, ofJson, ofNothing] })
  const ids = [
    (await tasks.submit(ofZod, { n: 1, at: 'xy' })).taskId,
    (await tasks.submit(ofValibot, { text: 't' })).taskId,
    (await tasks.submit(ofJson, { a: true })).taskId,
  ] as const
  for (const id of ids) await ended(tasks, id)
  const zod = (await tasks.get(ids[0], ofZod))?.result
  holds<Same<typeof zod, { total: number } | undefined>>()
  assert.equal(zod?.total, 3)
  const valibot = (await tasks.get(ids[1], ofValibot))?.result
  assert.equal(valibot?.[0]?.length, 1)
  const json = (await tasks.get(ids[2], ofJson))?.result
  assert.equal(json, true)
  // @ts-expect-error a boolean is no text
  const wrong: string | undefined = json
  assert.equal(typeof wrong, 'boolean')
  // @ts-expect-error nothing is known of it without its definition
  const unknown = (await tasks.get(ids[0]))?.result?.total as unknown
  assert.equal(unknown, 3)
  await tasks.close()
  await store.close()
})
