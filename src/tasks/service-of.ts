import type { TaskService } from './core/task-service.js'

/** Marks the objects that `createTasks` returns, in every copy of this package. */
const MARK = Symbol.for('longhaul.tasks')

const services = new WeakMap<object, TaskService>()

/** Remembers the service behind a public `Tasks` object. */
export function bindService(tasks: object, service: TaskService): void {
  Object.defineProperty(tasks, MARK, { value: true })
  services.set(tasks, service)
}

/**
 * Returns the service behind what `createTasks` returned.
 *
 * @param where - the function that was called, for the message. Default `longhaul`
 * @throws {TypeError} the value is no such object, or another copy of this package made it
 */
export function serviceOf(tasks: object | null | undefined, where = 'longhaul'): TaskService {
  const service = tasks && services.get(tasks)
  if (service) return service
  if (tasks && MARK in Object(tasks)) {
    throw new TypeError(`${where}: these tasks come from another copy of longhaul. ` +
      'Two copies are loaded by "import" beside "require", or by two versions in node_modules')
  }
  throw new TypeError(`${where}: pass what createTasks returned, then options`)
}
