import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, jsonSchema } from 'longhaul'

/** Duration of the work, in milliseconds, so that its progress is visible. */
const WORK_MS = 200
const STEPS = 4

/** Processes `taskData` (SPEC 2.7): counts its characters, words and lines, and computes its SHA-256. */
export const processData = defineTask({
  name: 'process-data',
  input: jsonSchema<{ taskData: string }>({
    type: 'object', additionalProperties: false,
    required: ['taskData'],
    properties: {
      taskData: { type: 'string', description: 'The text to process' },
      // The endpoint validates bodies of clients.
      callbackUrl: { description: 'An absolute http or https URL that is called when the task has ended' },
      startAt: { description: 'The time of the start (2026-12-24T18:00:00Z), or a delay (PT90M)' },
    },
  }),
  output: jsonSchema<{ message: string, characters: number, words: number, lines: number, sha256: string }>({
    title: 'Processed data', type: 'object',
    required: ['message', 'characters', 'words', 'lines', 'sha256'],
    properties: {
      message: { type: 'string' }, characters: { type: 'integer' }, words: { type: 'integer' }, lines: { type: 'integer' },
      sha256: { type: 'string', description: 'Hexadecimal digits' },
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
