import { defineTask } from 'longhaul'

/** Says when it begins and ends a run. A run takes `ms`. */
export function work(say: (text: string) => void) {
  return defineTask({
    name: 'work',
    run: async ({ ms = 0 }: { ms?: number }, { taskId, signal }) => {
      say(`began ${String(taskId)}`)
      await new Promise<void>((resolve, reject) => {
        setTimeout(resolve, ms)
        signal.addEventListener('abort', () => { reject(signal.reason as Error) })
      })
      say(`ended ${String(taskId)}`)
      return 'done'
    },
  })
}
