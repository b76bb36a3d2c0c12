import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, jsonSchema } from 'longhaul'

/** Longest wait, in milliseconds. */
const MAX_MS = 60_000

/**
 * Runs for each task name that is not the name of a demo task (SPEC 4.6). The server does not know the
 * business of its clients, so it interprets nothing of `data` but `ms`: a number of milliseconds to wait.
 */
export const anyTask = defineTask({
  name: 'any-task',
  input: jsonSchema<{ task: string, data: Record<string, unknown> }>({
    type: 'object', additionalProperties: false,
    required: ['task', 'data'],
    properties: { task: { type: 'string' }, data: { type: 'object' } },
  }),
  async run({ data: { ms } }, { signal }) {
    if (typeof ms === 'number' && ms > 0) await sleep(Math.min(ms, MAX_MS), undefined, { signal })
    return { message: 'The task is completed.' }
  },
})
