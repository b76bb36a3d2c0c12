import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, jsonSchema } from 'longhaul'

/** The slow work of the examples in this folder. */
export const report = defineTask({
  name: 'report',
  input: jsonSchema<{ year: number }>({ type: 'object', required: ['year'], properties: { year: { type: 'integer' } } }),
  async run({ year }, { progress, signal }) {
    for (let month = 1; month <= 12; month++) {
      await sleep(250, undefined, { signal })
      progress(month, 12)
    }
    return { message: `The report of ${year} is ready.`, months: 12 }
  },
})
