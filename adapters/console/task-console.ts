import { isHttpError } from '../../src/http/errors.js'
import type { Handler, HttpRequest } from '../../src/http/exchange.js'
import type { HostContext } from '../../src/http/principal.js'
import {
  compose, json, router, taskEndpoints, type Tasks, type TaskEndpointsOptions,
} from '../../src/index.js'
import { operatorEndpoints, type OperatorEndpointsOptions } from '../../src/operators/index.js'
import { crossSite } from '../../src/policies/index.js'
import type { PartialResults } from '../../src/partial/index.js'
import { func, hasMethod, readOptions, text, value, type OptionTable } from '../../src/runtime/options.js'
import type { Definitions } from '../../src/tasks/definition/define.js'
import { coreOf } from '../../src/tasks/tasks.js'
import { pageRoutes } from './page.js'

/** Options of `taskConsole`. */
export interface TaskConsoleOptions<C = HostContext, D extends Definitions = Definitions> {
  /**
   * The owner, as in `taskEndpoints`. Default: there is no panel of own tasks.
   *
   * Users see, cancel, retry, answer and delete their own tasks.
   */
  readonly owner?: Exclude<TaskEndpointsOptions<C>['owner'], 'anyone'>
  /**
   * Returns `true` for an operator, as in `operatorEndpoints`. Default: there is no panel for
   * operators.
   *
   * Operators see the tasks of all owners.
   */
  readonly operator?: OperatorEndpointsOptions<C>['operator']
  /** The definition of `retryTasks`, for a button that retries all failed tasks of a kind. Default: none. */
  readonly retries?: OperatorEndpointsOptions<C, D>['retries']
  /**
   * Partial results that are text, such as the words of an answer: what `partialResults` returned.
   * Default: none.
   *
   * The rows of the own tasks of a user show them while they arrive.
   */
  readonly partialResults?: PartialResults<string>
  /** Title and heading of the page. Default `Tasks`. */
  readonly title?: string
}

const OPTIONS = {
  owner: value("a function or 'principal'", (given) => typeof given === 'function' || given === 'principal'),
  operator: func(), retries: value(), partialResults: value('what partialResults returned', hasMethod('endpoint')),
  title: text({ default: 'Tasks' }),
} satisfies OptionTable<TaskConsoleOptions>

/**
 * Serves the console: a page that shows tasks with their progress, questions, errors and files, and cancels, retries and
 * deletes them. Mount it behind your authentication, at any path. The handler has the API of the page, too, below
 * `/api` of its mount path, and rejects requests from pages of other sites (403 `cross_site`).
 *
 * @example
 * import { taskConsole } from 'longhaul/console'
 *
 * const operator = ({ context }: HttpRequest<{ user?: { role: string } }>) => context.user?.role === 'admin'
 * app.use('/console', toNode(taskConsole(tasks, { operator })))
 *
 * @throws {TypeError} There is neither `owner` nor `operator`, there are `partialResults` without `owner`, or an option is unknown or not valid.
 */
export function taskConsole<C = HostContext, D extends Definitions = Definitions>(
  tasks: Tasks<D>, options: TaskConsoleOptions<C, D>,
): Handler<C> {
  const where = 'taskConsole'
  const { owner, operator, retries, partialResults: words, title } = readOptions(where, options as TaskConsoleOptions<C>, OPTIONS)
  if (owner === undefined && operator === undefined) {
    throw new TypeError(`${where}: pass owner, operator, or both, to say who sees which tasks`)
  }
  if (words !== undefined && owner === undefined) throw new TypeError(`${where}: partialResults needs owner`)
  const definitions = [...coreOf(tasks, where).settings.definitions.values()]
  const names = definitions.map(({ name }) => name)
  const withWords = definitions.filter(({ external }) => words !== undefined && external === words.external).map(({ name }) => name)
  const routes = {
    ...pageRoutes<C>(({ mountPath }) => ({
      title, names, partialResults: withWords, retryMany: retries !== undefined, access: `${mountPath}/api/access`,
      ...owner && { tasks: `${mountPath}/api/tasks` },
      ...operator && { operators: `${mountPath}/api/operator` },
    })),
    'GET /api/access': accessHandler(operator),
    ...owner && ownerRoutes(tasks, owner, words),
    ...operator && operatorRoutes(tasks, operator, retries as OperatorEndpointsOptions<C, D>['retries']),
  }
  return compose<C>(crossSite<C>(), router<C>(routes))
}

/** Says whether the user is an operator, so that the page requests only what the user may see. */
function accessHandler<C>(operator: TaskConsoleOptions<C>['operator']): Handler<C> {
  return async (request) => (
    json(200, { operator: await isOperator(operator, request) }, { 'cache-control': 'no-store' })
  )
}

async function isOperator<C>(operator: TaskConsoleOptions<C>['operator'], request: HttpRequest<C>): Promise<boolean> {
  try {
    const accepted: unknown = await operator?.(request)
    return accepted === true
  } catch (error) {
    if (isHttpError(error) && error.code === 'forbidden') return false
    throw error
  }
}

function ownerRoutes<C, D extends Definitions>(
  tasks: Tasks<D>, owner: NonNullable<TaskConsoleOptions<C>['owner']>, words: PartialResults<string> | undefined,
): Record<string, Handler<C>> {
  const statusPath = '/api/tasks/{id}'
  const endpoints = taskEndpoints<C, D>(tasks, { statusPath, owner, remove: 'forget' })
  return {
    'GET|HEAD /api/tasks': endpoints.list, ...taskRoutes(statusPath, endpoints),
    ...words && { [`GET|HEAD ${statusPath}/partial-results`]: words.endpoint(endpoints) },
  }
}

function operatorRoutes<C, D extends Definitions>(
  tasks: Tasks<D>, operator: NonNullable<TaskConsoleOptions<C>['operator']>,
  retries: OperatorEndpointsOptions<C, D>['retries'],
): Record<string, Handler<C>> {
  const statusPath = '/api/operator/tasks/{id}'
  const operators = operatorEndpoints<C, D>(tasks, {
    statusPath, operator, remove: 'forget', ...retries && { retries },
  })
  return {
    'GET|HEAD /api/operator/overview': operators.overview,
    'GET|HEAD /api/operator/pools': operators.pools,
    'PUT|DELETE /api/operator/pause': operators.pause,
    'GET|HEAD /api/operator/tasks': operators.list,
    ...taskRoutes(statusPath, operators),
    ...retries && { 'POST /api/operator/tasks/retry': operators.retryMany },
  }
}

type TaskHandlers<C> = Readonly<Record<'status' | 'retry' | 'callback' | 'input' | 'files', Handler<C>>>

function taskRoutes<C>(
  statusPath: string, { status, retry, callback, input, files }: TaskHandlers<C>,
): Record<string, Handler<C>> {
  return {
    [`GET|HEAD|DELETE ${statusPath}`]: status,
    [`POST ${statusPath}/retry`]: retry,
    [`POST ${statusPath}/callback`]: callback,
    [`POST ${statusPath}/input`]: input,
    [`GET|HEAD ${statusPath}/files/{name}`]: files,
  }
}
