// Types of partial results. scripts/check-package compiles them without strictFunctionTypes too, as `nest new` does.
import { expectTypeOf } from 'expect-type'
import { defineTask, jsonSchema } from 'longhaul'
import { partialResults } from 'longhaul/partial'
import { memory } from 'longhaul/memory'
import { z } from 'zod'

const words = partialResults<string>({ store: memory().store })

/** The schema types the input of a `run` that is wrapped. */
export const ofZod = defineTask({
  name: 'zod',
  input: z.object({ about: z.string() }),
  external: words.external,
  run: words.run(async ({ about }, { emit }) => {
    expectTypeOf(about).toEqualTypeOf<string>()
    await emit(about)
    return { words: 1 }
  }),
})

export const ofJsonSchema = defineTask({
  name: 'json',
  input: jsonSchema<{ about: string }>({ type: 'object' }),
  external: words.external,
  run: words.run(async (input) => {
    expectTypeOf(input).toEqualTypeOf<{ about: string }>()
  }),
})

/** Without a schema, `run` types the input. */
export const ofRun = defineTask({
  name: 'run',
  external: words.external,
  run: words.run(async (input: { about: string }, { emit }) => { await emit(input.about) }),
})
expectTypeOf<Parameters<typeof ofRun.run>[0]>().toEqualTypeOf<{ about: string }>()
