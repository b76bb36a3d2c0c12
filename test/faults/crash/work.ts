import { defineTask } from 'longhaul'

/** Lease of a run, shortened, in milliseconds. */
export const LEASE_MS = 1000
export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

/** Counts its runs. With `endless` a run lasts until it is told to stop, with `ms` for so long. A run may take 8 s. */
export function workOn(count: (taskId: string) => Promise<unknown>) {
  return defineTask({
    name: 'work', timeoutMs: 8000,
    run: async (input: { endless?: boolean, ms?: number } | undefined, { taskId, signal }) => {
      await count(String(taskId))
      if (input?.endless) await new Promise((_, reject) => { signal.addEventListener('abort', reject) })
      if (input?.ms !== undefined) await new Promise((resolve) => { setTimeout(resolve, input.ms) })
      return { message: 'done' }
    },
  })
}
