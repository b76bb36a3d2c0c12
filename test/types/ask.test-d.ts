import { expectTypeOf } from 'expect-type'
import { defineTask, jsonSchema } from 'longhaul'
import { z } from 'zod'

/** The answer has the type of its schema, without a cast, and a question names a schema that exists. */
export const asking = defineTask({
  name: 'asking',
  asks: { approve: jsonSchema<{ send: boolean }>({ type: 'object' }), count: z.object({ n: z.coerce.number() }) },
  run: async (input: { to: string }, { ask }) => {
    const answer = await ask('approve', { message: `Send it to ${input.to}?` })
    expectTypeOf(answer).toEqualTypeOf<{ send: boolean }>()
    const counted = await ask('mail-2', { message: 'How many?', schema: 'count', timeoutMs: 1000 })
    expectTypeOf(counted).toEqualTypeOf<{ n: number }>()
    // @ts-expect-error there is no schema of this name
    await ask('unknown', { message: 'x' })
    // @ts-expect-error there is no schema of this name
    await ask('approve', { message: 'x', schema: 'unknown' })
    // @ts-expect-error the message is missing
    await ask('approve', {})
    return { sent: answer.send }
  },
})

export const silent = defineTask({
  name: 'silent',
  run: async (_input: object, { ask }) => {
    // @ts-expect-error the definition has no asks
    await ask('approve', { message: 'x' })
    return {}
  },
})
