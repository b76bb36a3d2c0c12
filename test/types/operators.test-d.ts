// Types of longhaul/operators, compiled by `npm run types`, and by scripts/check-package.mjs on older compilers.
import {
  createTasks, defineTask, principalOf, router, type Handler, type HostContext, type HttpRequest,
} from 'longhaul'
import { memory } from 'longhaul/memory'
import { toFastify } from 'longhaul/fastify'
import { toKoa } from 'longhaul/koa'
import { toNode } from 'longhaul/node'
import { operatorEndpoints, retryTasks, type OperatorEndpoints, type RetryReport } from 'longhaul/operators'
import { partialResults } from 'longhaul/partial'

const report = defineTask({ name: 'report', run: () => ({ url: '/reports/1' }) })
const retries = retryTasks()
const tasks = createTasks({ ...memory(), definitions: [report, retries] })
const statusPath = '/admin/tasks/{id}'

/** `operator` reads the user of the framework without a type argument, and the handlers fit the bindings. */
export function hostUser(): OperatorEndpoints {
  const operators = operatorEndpoints(tasks, {
    statusPath,
    operator: ({ context }) => context.user?.role === 'admin',
    retries,
  })
  const site = router({ 'GET /admin/tasks': operators.list, 'POST /admin/tasks/retry': operators.retryMany })
  toNode(site)
  toKoa(site)
  toFastify(operators.status)
  return operators
}

interface AppContext { readonly account: { readonly isOperator: boolean } }

/** Another context has its type at the parameter. */
export function ownContext(): Handler<AppContext> {
  const { list } = operatorEndpoints(tasks, {
    statusPath,
    operator: async ({ context }: HttpRequest<AppContext>) => Promise.resolve(context.account.isOperator),
  })
  // @ts-expect-error the binding needs the context
  toNode(list)
  // @ts-expect-error there is no such property
  operatorEndpoints(tasks, { statusPath, operator: ({ context }: HttpRequest<AppContext>) => context.account.isAdmin })
  operatorEndpoints<AppContext>(tasks, { statusPath, operator: ({ context }) => context.account.isOperator })
  operatorEndpoints(tasks, {
    statusPath,
    operator: (request) => principalOf<{ subject: string; role: string }>(request)?.role === 'admin',
  })
  return list
}

/** `operator` is required and returns a boolean; `retries` are registered. */
export function mistakes(): void {
  // @ts-expect-error operator is missing
  operatorEndpoints(tasks, { statusPath })
  // @ts-expect-error a string is no boolean
  operatorEndpoints(tasks, { statusPath, operator: () => 'yes' })
  // @ts-expect-error report does not retry tasks
  operatorEndpoints(tasks, { statusPath, operator: () => true, retries: report })
  const without = createTasks({ ...memory(), definitions: [report] })
  // @ts-expect-error retries are not among the definitions
  operatorEndpoints(without, { statusPath, operator: () => true, retries })
}

/** Its input and its report are typed for the application's own code. */
export async function ownCode(): Promise<RetryReport | undefined> {
  // @ts-expect-error completed tasks are not retried
  await tasks.submit(retries, { status: ['completed'] })
  const { wait } = await tasks.submit(retries, { status: ['failed', 'cancelled'], task: ['report'], owner: 'ann' })
  const end = await wait({ timeoutMs: 1000 })
  return end?.status === 'completed' ? end.result : undefined
}

/** Partial results are readable for operators. */
export const words: Handler<HostContext> = partialResults<string>({ store: memory().store }).endpoint(hostUser())
