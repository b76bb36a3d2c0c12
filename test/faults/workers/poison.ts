import { defineTask } from 'longhaul'

/** Takes its process with it, after a while in which others have their turn. */
export const poison = defineTask({
  name: 'poison',
  attempts: 5,
  run: () =>
    new Promise<never>(() => {
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 200)
    }),
})
export const innocent = defineTask({ name: 'innocent', run: () => ({ message: 'Nothing happened.' }) })

/** The default, shortened. */
export const LEASE_MS = 1000
