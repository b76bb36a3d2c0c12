import { defineTask } from 'longhaul'

/** The default, shortened. */
export const LEASE_MS = 1000
export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

/** Input of the work. */
interface Input {
  /** The run lasts until it is told to stop. */
  readonly endless?: boolean
  /** Duration of the run in milliseconds. */
  readonly ms?: number
}

/** Counts its runs. A run may take 8 s. */
export function workOn(count: (taskId: string) => Promise<unknown>) {
  return defineTask({
    name: 'work', timeoutMs: 8000,
    run: async (input: Input | undefined, { taskId, signal }) => {
      await count(String(taskId))
      if (input?.endless) await new Promise((_, reject) => { signal.addEventListener('abort', reject) })
      if (input?.ms !== undefined) await new Promise((resolve) => { setTimeout(resolve, input.ms) })
      return { message: 'done' }
    },
  })
}
