import { createTasks, defineTask, jsonSchema } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'

/** Moment at which a worker kills itself: before the question is sent, or when it is stored. */
export type Death = 'before' | 'stored' | 'never'

/** A task that asks whether it may send a mail, on one database. */
export function openAsking(url: string, name: string, { worker, death = 'never' }: {
  readonly worker: boolean, readonly death?: Death,
}) {
  const { parts, close } = openDatabase(url, { name, leaseMs: 1000 })
  const die = (): void => { process.kill(process.pid, 'SIGKILL') }
  const mail = defineTask({
    name: 'mail',
    asks: { approve: jsonSchema<{ send: boolean, by: string }>({ type: 'object', required: ['send', 'by'] }) },
    checkpoint: jsonSchema<{ drafts: number }>({ type: 'object' }),
    run: async (_input: object, { ask, checkpoint, signal, attempt }) => {
      const { drafts } = checkpoint.value ?? { drafts: 0 }
      if (drafts === 0) await checkpoint.save({ drafts: 1 })
      if (death === 'before') die()
      if (death === 'stored') signal.addEventListener('abort', die)
      const answer = await ask('approve', { message: 'Send it?' })
      return { ...answer, drafts, attempt }
    },
  })
  const tasks = createTasks({
    ...parts,
    definitions: [mail],
    worker,
    concurrency: 1,
    onError: (error) => {
      console.error(error)
    },
  })
  return { tasks, mail, engine: parts.engine, close }
}
