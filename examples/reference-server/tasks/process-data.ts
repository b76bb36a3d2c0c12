import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, jsonSchema } from 'longhaul'

/** What the work takes, in milliseconds, so that there is something to see of it. */
const WORK_MS = 200
const STEPS = 4

/** SPEC 2.7: what is done with `taskData`. Counts its characters, words and lines, and takes its SHA-256. */
export const processData = defineTask({
  name: 'process-data',
  input: jsonSchema<{ taskData: string }>({
    type: 'object', additionalProperties: false,
    required: ['taskData'],
    properties: {
      taskData: { type: 'string', description: 'The text to process' },
      // Who sends the body has it judged elsewhere.
      callbackUrl: { description: 'An absolute http or https URL that is called when the task has ended' },
    },
  }),
  async run({ taskData }, { signal, progress }) {
    for (let step = 1; step <= STEPS; step++) {
      await sleep(WORK_MS / STEPS, undefined, { signal })
      progress(step, STEPS)
    }
    const words = taskData.match(/\S+/g)?.length ?? 0
    return {
      message: `Processed ${taskData.length} characters.`,
      characters: taskData.length, words, lines: taskData === '' ? 0 : taskData.split('\n').length,
      sha256: createHash('sha256').update(taskData).digest('hex'),
    }
  },
})
