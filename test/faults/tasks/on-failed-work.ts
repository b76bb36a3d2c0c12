import { createTasks, defineTask, permanent, type FailedWork } from 'longhaul'
import type { TaskEngine } from '../../../src/engine/engine.js'
import { openDatabase } from '../../servers/open-database.js'

/**
 * Moment at which a worker kills itself: in the run, once the failure is stored, or once the follow-up is
 * created. `never`, but with `idle`, nothing happens after a failure.
 */
export type Death = 'run' | 'failed' | 'created' | 'never' | 'idle'

export interface Input { readonly order: number, readonly ends?: 'permanent' | 'late' | 'cancelled' | 'well' }

/** An engine whose process dies, or makes nothing of what is due after the end of a task. */
function dying(engine: TaskEngine, death: Death): TaskEngine {
  const die = (): void => { process.kill(process.pid, 'SIGKILL') }
  const after = async <T>(call: T | Promise<T>, isLast: boolean): Promise<T> => {
    const outcome = await call
    if (isLast) die()
    return outcome
  }
  return new Proxy(engine, {
    get(target, name) {
      if (name === 'work') {
        return (...[options, handlers]: Parameters<TaskEngine['work']>) => {
          target.work(death === 'failed' || death === 'idle' ? { ...options, callbacks: 0 } : options, handlers)
        }
      }
      if (name === 'change') {
        return (...args: Parameters<TaskEngine['change']>) =>
          after(target.change(...args), death === 'failed' && args[2].status === 'failed')
      }
      if (name === 'create') {
        return (...args: Parameters<TaskEngine['create']>) =>
          after(target.create(...args), death === 'created' && args[0].name === 'alert')
      }
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) as unknown : value
    },
  })
}

/** Tasks that fail, and the alerts that follow, on one database. */
export function openFailing(url: string | undefined, name: string, { worker = true, death = 'never', maxCrashes = 3 }: {
  readonly worker?: boolean, readonly death?: Death, readonly maxCrashes?: number,
} = {}) {
  const { parts, close } = openDatabase(url, { name, leaseMs: 1000 })
  const alerts: FailedWork[] = []
  const alert = defineTask({
    name: 'alert', attempts: 3, backoff: { type: 'fixed', delayMs: 0 },
    run: (failed: FailedWork, { attempt }) => {
      if (attempt === 1) throw new Error('The alert fails once')
      alerts.push(failed)
      return { ...failed }
    },
  })
  const order = defineTask({
    name: 'order', attempts: 2, backoff: { type: 'fixed', delayMs: 0 }, timeoutMs: 500, onFailed: alert,
    run: async ({ ends }: Input, { signal }) => {
      if (death === 'run') process.kill(process.pid, 'SIGKILL')
      if (ends === 'well') return 'done'
      if (ends === 'late' || ends === 'cancelled') {
        await new Promise((_, reject) => { signal.addEventListener('abort', () => { reject(signal.reason as Error) }) })
      }
      const error = new Error('Out of stock', { cause: new Error('rows: 0') })
      throw ends === 'permanent' ? permanent(error) : error
    },
  })
  const tasks = createTasks({
    ...parts,
    engine: dying(parts.engine, death),
    definitions: [order, alert],
    worker: url === undefined || worker,
    maxCrashes,
    onError: () => undefined,
  })
  return { tasks, order, alert, alerts, engine: parts.engine, close }
}
