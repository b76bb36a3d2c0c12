import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, defineTask } from 'longhaul'
import { partialResults } from 'longhaul/partial'
import { openDatabase } from '../../servers/open-database.js'

const COUNT = 300

/** Tasks that emit the numbers from 1 to 300, one every few milliseconds, on one database. */
export function openCounting(url: string, name: string, worker: boolean) {
  const { parts, close } = openDatabase(url, { name, leaseMs: 2000 })
  const numbers = partialResults<number>({ store: parts.store })
  const counting = defineTask({
    name: 'counting', external: numbers.external,
    run: numbers.run(async (_input: object, { emit, emitted }) => {
      for (let next = (await emitted()).count + 1; next <= COUNT; next++) {
        await emit(next)
        await sleep(4)
      }
    }),
  })
  const tasks = createTasks({ ...parts, definitions: [counting], worker, onError: () => undefined })
  return { tasks, counting, numbers, close }
}
