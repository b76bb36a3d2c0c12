import { isJsonObject } from '../http/body/json.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type Operation } from '../http/exchange.js'
import { addParameters, body, changed, type Fragment } from '../openapi/operation.js'
import type { Properties } from '../openapi/fragment.js'
import { addFailures } from '../openapi/responses.js'
import { type HostContext } from '../http/principal.js'
import { OPERATORS, tenantOf } from '../http/requester.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { namedOwner } from '../runtime/names.js'
import { func, oneOf, readOptions, value, type OptionTable } from '../runtime/options.js'
import type { Definitions } from '../tasks/definition/define.js'
import { createEndpoints } from '../tasks/http/endpoints.js'
import {
  array, object, TASK_STATUSES, taskFormat, text, time, type TaskFormat,
} from '../tasks/http/formats.js'
import { accepted, listOperations } from '../tasks/http/operations.js'
import { readListFilter } from '../tasks/http/lists.js'
import {
  readSettings, type EndpointSettings, type OperatorAccess, type Select,
} from '../tasks/http/settings.js'
import { createSubmit } from '../tasks/http/submit.js'
import type { ListFilter } from '../tasks/lists.js'
import type { Tasks } from '../tasks/tasks.js'
import { createOverview } from './overview.js'
import { createPause, createPools } from './pools.js'
import {
  ACTION_STATUSES, type Action, type CancelTasks, type ForgetTasks, type RetryFilter, type RetryTasks,
} from './many-tasks.js'
import type { StoredTask } from '../engine/task.js'
import type { LogLine } from '../tasks/record/run-log.js'
import type { FailureDetails } from '../tasks/record/stored-failure.js'
import { forOperators as onlyForOperators } from '../tasks/record/view.js'

/** Options of `operatorEndpoints`. */
export interface OperatorEndpointsOptions<C = HostContext, D extends Definitions = Definitions> {
  /** Path of the status resource for operators below the mount path, with `{id}`: `/admin/tasks/{id}`. */
  readonly statusPath: string
  /**
   * Returns `true` for an operator: `({ context }) => context.user?.role === 'admin'`.
   *
   * Any other value gets a 403 `forbidden` with the reason `operators_only`, or a 401
   * `unauthorized` if the context has neither a `principal` nor a `user`.
   *
   * Called before the body and before any task is read. It may throw an `HttpError` instead.
   */
  readonly operator: (request: HttpRequest<C>) => MaybePromise<boolean>
  /** The body of responses: `taskFormat` (default), `jobFormat`, or your own. Operators see `owner`, `tenant`, `failure` and `log`, too. */
  readonly format?: TaskFormat
  /** Effect of a DELETE of the status resource, as in `taskEndpoints`. Default `cancel`. */
  readonly remove?: 'cancel' | 'forget'
  /**
   * Maximum time of `Prefer: wait=N`, in seconds. Default 30.
   *
   * A longer wait ends then.
   */
  readonly maxWaitSeconds?: number
  /** The definition for `retryMany`: made by `retryTasks`, and in `definitions`. Default: none. */
  readonly retries?: RetryTasks & D[number]
  /** The definition for `cancelMany`: made by `cancelTasks`, and in `definitions`. Default: none. */
  readonly cancels?: CancelTasks & D[number]
  /** The definition for `forgetMany`: made by `forgetTasks`, and in `definitions`. Default: none. */
  readonly forgets?: ForgetTasks & D[number]
}

/** The handlers for operators, who see and change the tasks of all owners. */
export interface OperatorEndpoints<C = HostContext, D extends Definitions = Definitions> {
  /**
   * Handler of GET and HEAD of the list of all tasks, at a path of your choice. It is like `list`
   * of `taskEndpoints`, but an item shows its `owner` if it has one, and the query may name an
   * `owner`.
   */
  readonly list: Handler<C>
  /**
   * Handler of GET and HEAD of an overview: `{ counts, oldestQueued?, callbacks }`. `counts` has
   * `{ count, more }` for each status of `tasks.list`, and counts up to 1000 tasks of each.
   * `oldestQueued` has waited longest for a run. `callbacks` is `{ examined, failed }`: the tasks whose
   * callback has failed, among the newest 200 final ones.
   */
  readonly overview: Handler<C>
  /**
   * Handler of GET and HEAD of the pools, at a path of your choice: `{ items }`, each of which is
   * `{ pool, isPaused, running, waiting, delayed, oldestWaitingMs? }`, as `tasks.pools()` returns them.
   */
  readonly pools: Handler<C>
  /**
   * Handler of the pause of a pool, at a path of your choice: `PUT /admin/pause?pool=heavy` pauses
   * it in all processes, DELETE resumes it. Both get a 204, even if nothing changes; an unknown
   * name gets a 400 `invalid_query`.
   */
  readonly pause: Handler<C>
  /**
   * Handler of the status resource, like `status` of `taskEndpoints`: GET and HEAD (polls and
   * events), and DELETE (cancel and forget).
   */
  readonly status: Handler<C>
  /** Handler of POST `{status}/retry`, like `retry` of `taskEndpoints`. */
  readonly retry: Handler<C>
  /** Handler of POST `{status}/callback`, like `callback` of `taskEndpoints`. */
  readonly callback: Handler<C>
  /** Handler of POST `{status}/input`, like `input` of `taskEndpoints`. */
  readonly input: Handler<C>
  /** Handler of GET and HEAD of `{status}/files/{name}`, like `files` of `taskEndpoints`. */
  readonly files: Handler<C>
  /**
   * Handler of a POST that retries all failed or cancelled tasks of a filter, at a path of your
   * choice: `POST /admin/tasks/retry?status=failed&task=report`. The query has `status` (default
   * `failed`), `task`, `owner`, `from` and `to`, as in the list; the body is empty or `{}`. The
   * response is a 202 with the `Location` of a task that only operators see: its owner is
   * `longhaul:operators`. Its progress counts tasks, and its result is a `RetryReport`. An
   * `Idempotency-Key` works as for every submit.
   *
   * @throws {TypeError} When it is read: there is no option `retries`.
   */
  readonly retryMany: Handler<C>
  /**
   * Handler of a POST that cancels all unfinished tasks of a filter, like `retryMany`:
   * `POST /admin/tasks/cancel?task=report&owner=ann`. The result is a `CancelReport`.
   *
   * @throws {TypeError} When it is read: there is no option `cancels`.
   */
  readonly cancelMany: Handler<C>
  /**
   * Handler of a POST that deletes all final tasks of a filter, like `retryMany`:
   * `POST /admin/tasks/forget?status=failed`. `status` is required. The result is a `ForgetReport`.
   *
   * @throws {TypeError} When it is read: there is no option `forgets`.
   */
  readonly forgetMany: Handler<C>
  /** Returns the task of a request below its status path, as `find` of `taskEndpoints`. */
  find(request: HttpRequest<C>, below: string): MaybePromise<StoredTask | undefined>
  /** @internal */
  readonly tasks: Tasks<D>
  /**
   * Owner that open streams count for.
   * @internal
   */
  readonly waitsAs: string
}

const OPTIONS = {
  statusPath: value(), operator: func({ required: true }), format: value(),
  remove: oneOf(['cancel', 'forget']), maxWaitSeconds: value(), retries: value(),
  cancels: value(), forgets: value(),
} satisfies OptionTable<OperatorEndpointsOptions>

/**
 * Creates the handlers for operators: whoever `operator` accepts lists, reads, cancels, retries and
 * deletes the tasks of all owners.
 *
 * The context is that of your framework (`context.user`). For another one, write the type of the
 * context at the parameter of `operator`: `({ context }: HttpRequest<AppContext>) => …`.
 *
 * @example
 * import { operatorEndpoints, retryTasks } from 'longhaul/operators'
 *
 * const retries = retryTasks()
 * const tasks = createTasks({ ...memory(), definitions: [report, retries] })
 * const operators = operatorEndpoints(tasks, {
 *   statusPath: '/admin/tasks/{id}',
 *   operator: ({ context }) => context.user?.role === 'admin',
 *   remove: 'forget',
 *   retries,
 * })
 * router({
 *   'GET|HEAD /admin/tasks': operators.list,
 *   'POST /admin/tasks/retry': operators.retryMany,
 *   'GET|HEAD|DELETE /admin/tasks/{id}': operators.status,
 *   'POST /admin/tasks/{id}/retry': operators.retry,
 * })
 *
 * @throws {TypeError} `operator` is missing, `statusPath` has no `{id}`, `retries` is not among the
 * definitions of `createTasks`, or an option is not valid.
 */
export function operatorEndpoints<C = HostContext, D extends Definitions = Definitions>(
  tasks: Tasks<D>, options: OperatorEndpointsOptions<C, D>,
): OperatorEndpoints<C, D> {
  const where = 'operatorEndpoints'
  const { operator, retries, cancels, forgets, format = taskFormat, ...shared } = readOptions(
    where, options as OperatorEndpointsOptions<C>, OPTIONS,
  )
  const access: OperatorAccess<C> = { where, admit: (request) => requireOperator(operator, request) }
  const settings = readSettings(tasks, { ...shared, format: forOperatorsOnly(format), owner: 'principal' }, access)
  const endpoints = createEndpoints(tasks, settings)
  const { list, status, retry, callback, input, files } = endpoints
  for (const each of [retries, cancels, forgets]) if (each !== undefined) settings.core.mustHave(each)
  const forOperators = (handler: Handler<C>): Handler<C> => (
    describe(handler, (handler.operations ?? []).map(addFailures('unauthorized', 'forbidden')))
  )
  return {
    tasks,
    waitsAs: OPERATORS,
    find: (request, below) => endpoints.find(request, below),
    list: forOperators(list),
    overview: forOperators(createOverview(settings, access)),
    pools: forOperators(createPools(settings, access)),
    pause: forOperators(createPause(settings, access)),
    status: forOperators(status),
    retry: forOperators(retry),
    callback: forOperators(callback),
    input: forOperators(input),
    files: forOperators(files),
    get retryMany() {
      return forOperators(createMany(settings, access, 'retry', retries))
    },
    get cancelMany() {
      return forOperators(createMany(settings, access, 'cancel', cancels))
    },
    get forgetMany() {
      return forOperators(createMany(settings, access, 'forget', forgets))
    },
  }
}

async function requireOperator<C>(
  operator: OperatorEndpointsOptions<C>['operator'], request: HttpRequest<C>,
): Promise<void> {
  const accepted: unknown = await operator(request)
  // Only true will do: a check that forgot to return must not let anybody in.
  if (accepted === true) return
  const { principal, user } = (request.context ?? {}) as Readonly<Record<string, unknown>>
  if ((principal ?? user ?? undefined) === undefined) throw httpError('unauthorized')
  throw httpError('forbidden', { members: { reason: 'operators_only' } })
}

const errorSchema = object({ name: text, message: text, code: text, stack: text, cause: { type: 'object' } }, 'name', 'message')
const runSchema = { attempt: { type: 'integer', minimum: 1 }, error: errorSchema }

const failureSchema = {
  ...object({
    ...runSchema,
    earlier: array(object(runSchema, 'attempt', 'error')),
    input: { description: 'The input; the beginning of its JSON if it is large' }, context: {},
  } satisfies Properties<FailureDetails>, 'attempt', 'error'),
  description: 'The real error of the last failed run. Clients do not see it',
}

const logSchema = {
  ...array(object({
    at: time, attempt: { type: 'integer', minimum: 1 }, text,
  } satisfies Properties<LogLine>, 'at', 'attempt', 'text')),
  description: 'The last lines that the runs have logged. Clients do not see them',
}

/** Adds the owner, the tenant, the real errors and the log to the bodies of a format. */
function forOperatorsOnly(format: TaskFormat): TaskFormat {
  return {
    ...format,
    schema: { title: 'Owned task', allOf: [object({ owner: text, tenant: text, failure: failureSchema, log: logSchema }), format.schema] },
    toText: (task, statusPath) => {
      const body = format.toText(task, statusPath)
      const { owner, tenant } = namedOwner(task.owner)
      const { failure, log } = onlyForOperators(task)
      const shown: unknown = task.owner === undefined && !failure && !log ? undefined : JSON.parse(body)
      return isJsonObject(shown) ? JSON.stringify({ owner, tenant, ...shown, failure, log }) : body
    },
  }
}

/** The query parameters of `retryMany`, `cancelMany` and `forgetMany`. */
const NAMES = ['status', 'task', 'from', 'to', 'owner', 'tenant'] as const

/** Option with the definition of each action. */
const OPTION_OF = { retry: 'retries', cancel: 'cancels', forget: 'forgets' } as const

function createMany<C>(
  settings: EndpointSettings<C>, { where, admit }: OperatorAccess<C>, action: Action,
  definition: RetryTasks | CancelTasks | ForgetTasks | undefined,
): Handler<C> {
  if (definition === undefined) {
    const option = OPTION_OF[action]
    throw new TypeError(`${where}: ${action}Many needs the option ${option}: const ${option} = ${action}Tasks(), `
      + 'among the definitions of createTasks')
  }
  const select: Select<C> = (body, request) => {
    if (JSON.stringify(body) === '{}') {
      const filter = readListFilter(settings, request, 'all', { names: NAMES })
      return { definition, input: toFilter(filter, action, settings.format) }
    }
    throw httpError('invalid_input', {
      details: [{ pointer: '', message: 'must be empty, or an empty object' }],
    })
  }
  const submitted = createSubmit(settings, select, { respond: 'always', emptyBody: {} })
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'POST') return undefined
    await admit(request)
    return submitted(request)
  }
  return describe(handler, (submitted.operations ?? []).map((each) => (
    manyOperation(each, settings.format, action)
  )))
}

/** Returns the words of a format for the statuses that an action changes. */
function wordsOf(
  { statuses = TASK_STATUSES }: TaskFormat, action: Action,
): NonNullable<TaskFormat['statuses']> {
  return Object.fromEntries(Object.entries(statuses).filter(
    ([, all]) => all.every((each) => ACTION_STATUSES[action].includes(each)),
  ))
}

function toFilter(
  { of, statuses: status, names: task, from, to }: ListFilter, action: Action, format: TaskFormat,
): object {
  if (status?.some((each) => !ACTION_STATUSES[action].includes(each)) ?? action === 'forget') {
    const words = Object.keys(wordsOf(format, action)).map((each) => JSON.stringify(each)).join(', ')
    throw httpError('invalid_query', { message: `"status" must be one or several of ${words}, separated by commas.` })
  }
  return {
    ...status && { status }, ...task && { task },
    ...ownerFilter(of),
    ...from !== undefined && { from: new Date(from).toISOString() },
    ...to !== undefined && { to: new Date(to).toISOString() },
  } satisfies Omit<RetryFilter, 'status'>
}

/** Returns the properties of a filter that `narrowed` has made a scope of. */
function ownerFilter(of: ListFilter['of']): { readonly owner?: string, readonly tenant?: string } {
  if (of === 'all') return {}
  const { owner, tenant } = 'caller' in of ? { owner: undefined, tenant: tenantOf(of.caller) } : namedOwner(of.owner)
  return { ...owner !== undefined && { owner }, ...tenant !== undefined && { tenant } }
}

const SUMMARIES = {
  retry: 'Retry all failed or cancelled tasks of a filter, in the background',
  cancel: 'Cancel all unfinished tasks of a filter, in the background',
  forget: 'Delete all final tasks of a filter, in the background',
} as const

/** Describes the query in place of the body of a submit. */
function manyOperation(submit: Operation, format: TaskFormat, action: Action): Operation {
  const [list] = listOperations({ ...format, statuses: wordsOf(format, action) }, true)
  const names: readonly unknown[] = NAMES
  const parameters = ((list?.openapi['parameters'] ?? []) as readonly Fragment[]).map((each) => (
    action === 'forget' && each['name'] === 'status' ? { ...each, required: true } : each
  ))
  return addParameters(addFailures('invalid_query')(changed(submit, {
    summary: SUMMARIES[action],
    requestBody: body({ type: 'object', maxProperties: 0 }, { required: false }),
    responses: {
      ...submit.openapi['responses'] as Fragment,
      202: accepted(`Accepted: a task changes the others (${action})`, format),
    },
  })), parameters.filter(({ name }) => names.includes(name)))
}
