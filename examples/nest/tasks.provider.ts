import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common'
import { createTasks, taskEndpoints, type TaskEndpoints, type Tasks } from 'longhaul'
import { memory } from 'longhaul/memory'
import { report } from '../report.js'
import type { User } from './user.guard.js'

// #region providers
/** The token under which services of the application inject the tasks. */
export const TASKS = Symbol('tasks')
/** The token under which controllers inject the endpoints. */
export const ENDPOINTS = Symbol('endpoints')

/** The request context that `toNode` makes: the user whom the guard has set. */
export interface HostContext { readonly user?: User }

function endpointsOf(tasks: Tasks): TaskEndpoints<HostContext> {
  // The status path includes the global prefix, because Nest mounts controllers with the whole path.
  return taskEndpoints(tasks, { statusPath: '/api/tasks/{id}', owner: ({ context }) => context.user?.id })
}

/** Drains the tasks before Nest closes the server. */
@Injectable()
export class TasksLifecycle implements BeforeApplicationShutdown {
  constructor(@Inject(TASKS) private readonly tasks: Tasks) {}

  async beforeApplicationShutdown(): Promise<void> {
    await this.tasks.close({ drainMs: 10_000 })
  }
}

export const TASK_PROVIDERS = [
  { provide: TASKS, useFactory: () => createTasks({ ...memory(), definitions: [report] }) },
  { provide: ENDPOINTS, useFactory: endpointsOf, inject: [TASKS] },
  TasksLifecycle,
]
// #endregion
