// Types of `checkpoint` in `run`, compiled by `npm run types`: the schema types the value and the save, without a cast.
import { expectTypeOf } from 'expect-type'
import { createTasks, defineTask, type AnyTaskDefinition, type TaskContext } from 'longhaul'
import { memory } from 'longhaul/memory'
import { testContext } from 'longhaul/testing'
import { z } from 'zod'

const walk = defineTask({
  name: 'walk',
  input: z.object({ from: z.string() }),
  checkpoint: z.object({ line: z.number(), at: z.coerce.date() }),
  run: async ({ from }, { checkpoint }) => {
    expectTypeOf(from).toEqualTypeOf<string>()
    expectTypeOf(checkpoint.value).toEqualTypeOf<{ line: number, at: Date } | undefined>()
    await checkpoint.save({ line: 1, at: new Date() })
    // @ts-expect-error a value of another shape
    await checkpoint.save({ page: 1 })
    return { line: checkpoint.value?.line ?? 0 }
  },
})
// It goes where definitions go, and keeps its other types.
expectTypeOf(walk).toExtend<AnyTaskDefinition>()
const tasks = createTasks({ ...memory(), definitions: [walk] })
const task = await tasks.submit(walk, { from: 'here' })
const end = await task.wait({ timeoutMs: 1000 })
if (end?.status === 'completed') expectTypeOf(end.result.line).toEqualTypeOf<number>()
testContext(walk, { checkpoint: { line: 1, at: new Date() } })
// @ts-expect-error a value of another shape
testContext(walk, { checkpoint: { page: 1 } })

// Without the option there is no value, and nothing can be saved.
defineTask({
  name: 'plain',
  run: async (_, { checkpoint }) => {
    expectTypeOf(checkpoint.value).toEqualTypeOf<undefined>()
    // @ts-expect-error there is no schema
    await checkpoint.save({ line: 1 })
  },
})

// A function of the host takes the context of any definition.
const helper = ({ checkpoint }: TaskContext): unknown => checkpoint.value
defineTask({ name: 'helped', checkpoint: z.number(), run: (_, context) => { helper(context) } })
defineTask({ name: 'helped-plain', run: (_, context) => { helper(context) } })

// @ts-expect-error JSON cannot carry a Map
defineTask({ name: 'map', checkpoint: z.map(z.string(), z.number()), run: () => 1 })
// @ts-expect-error version is a text
defineTask({ name: 'versioned', version: 2, run: () => 1 })
