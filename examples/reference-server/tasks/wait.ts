import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, HttpError, jsonSchema } from 'longhaul'

const STEPS = 20

/** Waits for the given time. Useful to try the server out. */
export const wait = defineTask({
  name: 'wait',
  input: jsonSchema<{ ms?: number, fail?: boolean }>({
    type: 'object', additionalProperties: false,
    properties: {
      ms: { type: 'integer', minimum: 0, maximum: 60_000, description: 'How long to wait, in milliseconds; 1000 if it is not said' },
      fail: { type: 'boolean', description: 'Whether to fail in the end' },
    },
  }),
  async run({ ms = 1000, fail = false }, { signal, progress }) {
    const start = performance.now()
    for (let step = 1; step <= STEPS; step++) {
      // Waits until the absolute time of the step, because delays of twenty timers would add up.
      await sleep(Math.max(0, start + (ms * step) / STEPS - performance.now()), undefined, { signal })
      progress(Math.round((ms * step) / STEPS), ms)
    }
    if (fail) throw new HttpError(422, 'told_to_fail', { message: 'The task failed, as it was told to.' })
    return { message: `Waited for ${ms} ms.`, ms }
  },
})
