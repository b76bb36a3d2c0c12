import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type as ark } from 'arktype'
import fc from 'fast-check'
import * as v from 'valibot'
import * as z from 'zod'
import { bulkCreate } from '../../../src/bulk/create.js'
import type { Schema } from '../../../src/schema/schema.js'
import { ask, draft, only, Users, type Draft, type User } from '../kit/bulk.js'

describe('SPEC 4.3.1: any schema judges each item', () => {
  const schemas: Record<string, Schema<Draft>> = {
    'JSON Schema': draft,
    'zod': z.object({ name: z.string(), email: z.string().min(3) }),
    'valibot': v.object({ name: v.string(), email: v.pipe(v.string(), v.minLength(3)) }),
    'arktype': ark({ name: 'string', email: 'string >= 3' }),
  }
  for (const [name, schema] of Object.entries(schemas)) {
    test(name, async () => {
      const users = new Users()
      const { status, json } = await ask(bulkCreate<User, Draft>({ repository: users, schema }), {
        body: [{ name: 'a', email: 'a@b' }, { name: 'a' }, { name: 7, email: 'c@d' }, null],
      })
      assert.deepEqual(
        [status, json.items.map((item) => item.status), users.emails],
        [207, [201, 400, 400, 400], ['a@b']],
      )
      assert.deepEqual(
        json.items.map(({ error }) => error?.details?.[0]?.pointer),
        [undefined, '/1/email', '/2/name', '/3'],
      )
    })
  }
  test('the output of a schema is written', async () => {
    const users = new Users()
    const schema = z.object({ name: z.string().default('nobody'), email: z.string().toLowerCase() })
    await ask(bulkCreate<User, Draft>({ repository: users, schema, key: ({ email }) => email }), {
      body: [{ email: 'A@B' }, { email: 'a@b' }],
    })
    assert.deepEqual([...users.users.values()].map(({ name, email }) => [name, email]), [['nobody', 'a@b']])
  })
})

test('SPEC 4.3.1, 4.3.2: each item of a shuffled batch gets the same report as alone', async () => {
  const item = fc.oneof(
    fc.record({ name: fc.string(), email: fc.string({ minLength: 3, maxLength: 3 }) }),
    fc.jsonValue(),
    fc.constantFrom(
      {},
      { name: 'x' },
      { name: 'x', email: 'ab' },
      { name: 1, email: 'user-1@example.com' },
      { name: 'x', email: 'user-1@example.com' },
      [],
      null,
    ),
  )
  const seen = (value: unknown): unknown => (value as { email?: unknown } | null)?.email
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(item, { minLength: 1, maxLength: 12, selector: (value) => JSON.stringify(seen(value) ?? value) }),
      fc.boolean(),
      fc.boolean(),
      async (items, stream, one) => {
        const run = async (body: unknown[]) => {
          const users = new Users(1)
          const repository = one ? only(users, 'create') : users
          const handler = bulkCreate<User, Draft>({
            repository,
            schema: draft,
            batchSize: 3,
            concurrency: 2,
            ...(stream && { streamAboveBytes: 0 }),
          })
          return { ...(await ask(handler, { body })), users }
        }
        const alone = await Promise.all(items.map((its) => run([its])))
        // A body that is refused as a whole has no report: __proto__ and its kind.
        fc.pre(alone.every(({ json }) => json.summary !== undefined))
        const { json, users } = await run(items)
        assert.deepEqual(
          json.items.map(({ index, status, error }) => ({ index, status, error })),
          alone.map((its, index) => {
            const { status, error } = its.json.items[0] ?? {}
            const details = error?.details?.map(({ pointer, message }) => ({
              pointer: pointer.replace('/0', `/${index}`),
              message,
            }))
            return { index, status, error: details ? { ...error, details } : error }
          }),
        )
        const succeeded = json.items.filter(({ status }) => status === 201)
        assert.deepEqual(json.summary, {
          total: items.length,
          succeeded: succeeded.length,
          failed: items.length - succeeded.length,
        })
        assert.deepEqual(
          users.emails.slice(1),
          succeeded.map(({ index }) => seen(items[index])),
        )
      },
    ),
    { numRuns: 150 },
  )
})
