// Types of tasks, compiled by `npm run types`, and by scripts/check-package.mjs on older compilers.
import { expectTypeOf } from 'expect-type'
import {
  compose, createTasks, defineTask, jsonSchema, router, taskEndpoints, type AnyTaskDefinition,
  type CompletedTask, type Handler, type HttpRequest, type JsonSafe, type Policy, type Task,
  type TaskContext, type TaskEndpoints, type TaskFile, type TaskHandle, type Tasks,
} from 'longhaul'
import { createClient, type InputOf, type ResultOf, type TaskStatus } from 'longhaul/client'
import { cron } from 'longhaul/cron'
import { memory } from 'longhaul/memory'
import { requestId, timeouts } from 'longhaul/policies'
import { z } from 'zod'

const report = defineTask({
  name: 'report',
  input: z.object({ year: z.coerce.number<string | number>() }),
  output: z.object({ months: z.array(z.number()) }),
  run: async ({ year }, { context }) => {
    expectTypeOf(year).toEqualTypeOf<number>()
    expectTypeOf(context).toEqualTypeOf<unknown>()
    return { months: [year] }
  },
})
const mail = defineTask({
  name: 'mail',
  run: ({ to }: { to: string }, { context }: TaskContext<{ locale: string }>) => (
    { at: new Date(), to, locale: context.locale }
  ),
})
const counts = defineTask({
  name: 'counts', input: jsonSchema<{ a: boolean }>({ type: 'object' }), run: ({ a }) => a,
})
const tasks = createTasks({ ...memory(), definitions: [report, mail, counts] })
const stranger = defineTask({ name: 'stranger', run: () => 1 })

/** Submitting: the input of the schema, registered definitions only, the context that is needed. */
export async function submitting(): Promise<void> {
  const task = await tasks.submit(report, { year: '2025' }, { owner: 'ann' })
  expectTypeOf(task).toEqualTypeOf<TaskHandle<typeof report>>()
  expectTypeOf(task.taskId).toEqualTypeOf<string>()
  await tasks.submit(mail, { to: 'ann' }, { context: { locale: 'en' }, delayMs: 5 })
  await tasks.ownedBy(undefined).submit(counts, { a: true })
  // @ts-expect-error a year is a number or a text
  await tasks.submit(report, { year: true })
  // @ts-expect-error a year is required
  await tasks.submit(report, {})
  // @ts-expect-error the definition is not registered
  await tasks.submit(stranger, {})
  // @ts-expect-error the context is required
  await tasks.submit(mail, { to: 'ann' })
  // @ts-expect-error the context is of another type
  await tasks.submit(mail, { to: 'ann' }, { context: { locale: 1 } })
  // @ts-expect-error the input of jsonSchema is of its type
  await tasks.ownedBy('ann').submit(counts, { a: 1 })
  // @ts-expect-error there is no such option
  await tasks.submit(report, { year: 1 }, { retries: 1 })
}

/** Later, pools and priorities: a Date, a name and a number. */
export async function scheduling(): Promise<void> {
  const video = defineTask({ name: 'video', pool: 'heavy', priority: 5, run: () => 1 })
  const pooled = createTasks({
    ...memory(),
    definitions: [video],
    pools: { heavy: { concurrency: 2 } },
    worker: ['heavy'],
  })
  await pooled.submit(video, {}, { startAt: new Date(), priority: 1 })
  await pooled.ownedBy('ann').submit(video, {}, { startAt: new Date(), priority: 1 })
  // @ts-expect-error a start is a Date
  await pooled.submit(video, {}, { startAt: '2026-12-24T18:00:00Z' })
  // @ts-expect-error a priority is a number
  await pooled.submit(video, {}, { priority: 'high' })
  // @ts-expect-error the pool is that of the definition
  await pooled.submit(video, {}, { pool: 'heavy' })
  // @ts-expect-error a pool is named by a text
  defineTask({ name: 'a', pool: 1, run: () => 1 })
  // @ts-expect-error a priority is a number
  defineTask({ name: 'b', priority: 'high', run: () => 1 })
  // @ts-expect-error the concurrency is a number
  createTasks({ ...memory(), definitions: [video], pools: { heavy: { concurrency: '2' } } })
}

/** Submitting in a transaction: whatever has `query(text, values)`, resolving to `{ rows }`. */
export async function inTransaction(
  client: { query(text: string, values: unknown[]): Promise<{ rows: object[] }> },
): Promise<void> {
  await tasks.submit(report, { year: 1 }, { transaction: client, owner: 'ann' })
  await tasks.ownedBy('ann').submit(mail, { to: 'ann' }, { transaction: client, context: { locale: 'en' } })
  // @ts-expect-error a transaction is an object with a function
  await tasks.submit(report, { year: 1 }, { transaction: 'BEGIN' })
  // @ts-expect-error `query` must be a function
  await tasks.submit(report, { year: 1 }, { transaction: { query: {} } })
  // @ts-expect-error `query` must resolve to an object with rows
  await tasks.submit(report, { year: 1 }, { transaction: { query: async (text: string) => [text] } })
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  submit(report, {
    transaction: async (_request, input, submitIn) => {
      expectTypeOf(input).toEqualTypeOf<InputOf<typeof report>>()
      expectTypeOf(await submitIn(client)).toEqualTypeOf<{ readonly taskId: string }>()
    },
  })
  // @ts-expect-error the transaction of an endpoint is a function
  submit(report, { transaction: client })
}

/** Listing: `task` and `status` narrow the items. */
export async function listing(): Promise<void> {
  const all = await tasks.list()
  expectTypeOf(all.items).toEqualTypeOf<Task<typeof report | typeof mail | typeof counts>[]>()
  expectTypeOf(all.next).toEqualTypeOf<string | undefined>()
  const { items } = await tasks.ownedBy('ann').list({ task: report, status: 'completed', limit: 5 })
  expectTypeOf(items).toEqualTypeOf<CompletedTask<typeof report>[]>()
  expectTypeOf<(typeof items)[number]['result']['months']>().toEqualTypeOf<number[]>()
  const some = await tasks.list({ task: [report, mail], status: ['failed', 'cancelled'] })
  expectTypeOf(some.items).toBeArray()
  expectTypeOf<(typeof some.items)[number]['task']>().toEqualTypeOf<'report' | 'mail'>()
  expectTypeOf<(typeof some.items)[number]['status']>().toEqualTypeOf<'failed' | 'cancelled'>()
  // @ts-expect-error there is no such status
  await tasks.list({ status: 'done' })
  // @ts-expect-error the definition is not registered
  await tasks.list({ task: stranger })
  // @ts-expect-error times are of Date
  await tasks.list({ from: 5 })
  // @ts-expect-error an owner is named by ownedBy
  await tasks.list({ owner: 'ann' })
}

/** Reading: one union on `status`, and on `task` where the definition is not named. */
export async function reading(): Promise<void> {
  const task = await tasks.get('a', report)
  expectTypeOf(task).toEqualTypeOf<Task<typeof report> | undefined>()
  if (!task) return
  expectTypeOf(task.status).toEqualTypeOf<
    'scheduled' | 'queued' | 'processing' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  >()
  expectTypeOf(task.createdAt).toEqualTypeOf<Date>()
  expectTypeOf(task.task).toEqualTypeOf<'report'>()
  if (task.status === 'completed') {
    expectTypeOf(task.result.months).toEqualTypeOf<number[]>()
    // @ts-expect-error the library adds nothing to a result
    console.log(task.result.message)
    expectTypeOf(task.finishedAt).toEqualTypeOf<Date>()
    // @ts-expect-error a completed task has no error
    console.log(task.error.code)
  }
  if (task.status === 'failed') expectTypeOf(task.error.code).toEqualTypeOf<string>()
  if (task.status === 'scheduled') expectTypeOf(task.startAt).toEqualTypeOf<Date>()
  // @ts-expect-error there is no such status
  if (task.status === 'done') return
  // @ts-expect-error the definition is not registered
  await tasks.get('a', stranger)
  // @ts-expect-error the owner is named by ownedBy
  await tasks.get('a', { owner: 'ann' })

  const any = await tasks.ownedBy('ann').wait('a', { timeoutMs: 5 })
  if (any?.task === 'mail' && any.status === 'completed') {
    // A Date reads as text.
    expectTypeOf(any.result.at).toEqualTypeOf<string>()
  }
  if (any?.task === 'counts' && any.status === 'completed') {
    expectTypeOf(any.result).toEqualTypeOf<boolean>()
  }
  expectTypeOf(await tasks.cancel('a')).toEqualTypeOf<
    Task<typeof report | typeof mail | typeof counts> | undefined
  >()
}

/** The compiler names the reason. */
export function reason(safe: JsonSafe<Map<string, string>>): void {
  expectTypeOf<keyof typeof safe>().toEqualTypeOf<
    'JSON cannot carry this value: no function, Map, Set, symbol, bigint or buffer'
  >()
}

/** Results that JSON cannot carry. */
export function results(): void {
  // @ts-expect-error a Map
  defineTask({ name: 'a', run: () => ({ members: new Map<string, string>() }) })
  // @ts-expect-error a Set, in a promise
  defineTask({ name: 'b', run: async () => [new Set([1])] })
  // @ts-expect-error a function
  defineTask({ name: 'c', run: () => ({ deep: { call: () => 1 } }) })
  // @ts-expect-error a bigint
  defineTask({ name: 'd', run: async () => 1n })
  // @ts-expect-error a symbol
  defineTask({ name: 'e', run: () => ({ s: Symbol('s') }) })
  // @ts-expect-error not what output says
  defineTask({ name: 'f', output: z.object({ n: z.number() }), run: () => ({ n: 'one' }) })
  // @ts-expect-error less than output says
  defineTask({ name: 'g', output: z.object({ n: z.number() }), run: () => ({}) })
  // @ts-expect-error not what the schema gives
  defineTask({ name: 'h', input: z.object({ n: z.number() }), run: ({ n }: { n: string }) => n })
  // @ts-expect-error there is no such option
  defineTask({ name: 'i', run: () => 1, retries: 3 })
}

interface User { readonly id: string }
interface Host { readonly user: User }
const endpoints = taskEndpoints(tasks, {
  statusPath: '/tasks/{id}', owner: ({ context }: HttpRequest<Host>) => context.user.id,
})

/** Endpoints: the context of the host travels to `run`. */
export function submits(): void {
  endpoints.submit(report)
  endpoints.submit(report, { respond: 'always' })
  endpoints.submit(mail, { context: ({ context }) => ({ locale: context.user.id }) })
  endpoints.submit(() => ({ definition: report, input: {} }), { respond: 'always' })
  endpoints.submit((body, { context }) => {
    expectTypeOf(context).toEqualTypeOf<Host>()
    expectTypeOf(body).toEqualTypeOf<unknown>()
    return { definition: mail, input: body }
  })
  endpoints.submit(async (body) => ({ definition: report, input: body, pointer: '/data' }))
  // @ts-expect-error the definition is not registered
  endpoints.submit(stranger)
  // @ts-expect-error the selected definition is not registered
  endpoints.submit(() => ({ definition: stranger, input: {} }))
  // @ts-expect-error neither a definition nor a function
  endpoints.submit('report')
  // @ts-expect-error the context is required
  endpoints.submit(mail)
  // @ts-expect-error the context is of another type
  endpoints.submit(mail, { context: ({ context }) => ({ locale: context.user }) })
  // @ts-expect-error the owner is required
  taskEndpoints(tasks, { statusPath: '/tasks/{id}' })
  const all: Tasks = tasks
  const anyEndpoints: TaskEndpoints<Host> = endpoints
  anyEndpoints.submit(stranger)
  taskEndpoints<Host>(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' }).submit(stranger)
  const loose: readonly AnyTaskDefinition[] = [report, mail, counts]
  console.log(all, loose)
}

/** Policies and handlers compose without casts. */
export function composing(plain: Handler, checksUser: Policy<Host>): void {
  const secured = [requestId(), timeouts({ runMs: 1000 })]
  const routes = router({ 'POST /reports': endpoints.submit(report), 'GET /health': plain })
  expectTypeOf(routes).toEqualTypeOf<Handler<Host>>()
  expectTypeOf(compose(...secured, routes)).toEqualTypeOf<Handler<Host>>()
  expectTypeOf(compose(requestId(), checksUser, routes)).toEqualTypeOf<Handler<Host>>()
  expectTypeOf(compose(...secured, checksUser, plain)).toEqualTypeOf<Handler<Host>>()
  expectTypeOf(compose(...secured, plain)).toEqualTypeOf<Handler>()
  const other: Policy<{ readonly user: number }> = (request, next) => next(request)
  // @ts-expect-error a policy and a handler that read different contexts
  compose(other, routes)
  // @ts-expect-error a handler that reads a user is none that reads nothing
  const nothing: Handler = routes
  console.log(nothing)
}

/** The client has the types of the definition. */
export async function asking(): Promise<void> {
  const client = createClient()
  const remote = client.task<typeof report>('/reports')
  const { months } = await remote.run({ year: '2025' })
  expectTypeOf(months).toEqualTypeOf<number[]>()
  expectTypeOf<InputOf<typeof report>>().toEqualTypeOf<{ year: string | number }>()
  expectTypeOf<ResultOf<typeof mail>['at']>().toEqualTypeOf<string>()
  expectTypeOf<ResultOf<typeof mail>>().toEqualTypeOf<import('longhaul').ResultOf<typeof mail>>()
  expectTypeOf<ResultOf<typeof counts>>().toEqualTypeOf<import('longhaul').ResultOf<typeof counts>>()
  // @ts-expect-error a year is a number or a text
  await remote.submit({ year: null })
}

/** The JSON form of a member of a task. */
type Json<T> = T extends Date ? string : T extends object ? { [K in keyof T]: Json<T[K]> } : T
/** The members of the server's task in a status, as they are on the wire, without `failure` and `log`. */
type OnWire<S extends Task['status']> =
  Omit<Required<Json<Omit<Extract<Task, { status: S }>, 'result' | 'failure' | 'log'>>>, 'status'>
/** The members of the client's task in a status. A server may leave out most of them. */
type AtClient<S extends TaskStatus['status']> =
  Omit<Required<Extract<TaskStatus, { status: S }>>, 'status' | 'result' | 'body'>

/** The client's status is the server's task: the same names, times as text, one type of result. */
export async function watching(): Promise<void> {
  expectTypeOf<AtClient<'processing'>>().branded.toEqualTypeOf<OnWire<'processing'>>()
  expectTypeOf<AtClient<'input_required'>>().branded.toEqualTypeOf<OnWire<'input_required'>>()
  // Endpoints add the `url` of each file.
  type Final = 'completed' | 'failed' | 'cancelled'
  expectTypeOf<AtClient<Final>['files'][number]>().branded.toEqualTypeOf<TaskFile & { readonly url: string }>()
  expectTypeOf<Omit<AtClient<'completed'>, 'files'>>().branded.toEqualTypeOf<Omit<OnWire<'completed'>, 'files'>>()
  expectTypeOf<Omit<AtClient<'failed'>, 'files'>>().branded.toEqualTypeOf<Omit<OnWire<'failed'>, 'files'>>()
  expectTypeOf<Omit<AtClient<'cancelled'>, 'files'>>().branded.toEqualTypeOf<Omit<OnWire<'cancelled'>, 'files'>>()
  type NotOnWire = Exclude<Task['status'], TaskStatus['status']>
  expectTypeOf<NotOnWire>().toEqualTypeOf<'queued'>()

  const handle = createClient().task<typeof report>('/reports').resume({ statusUrl: '/tasks/1' })
  expectTypeOf(handle.taskId).toEqualTypeOf<string | undefined>()
  for await (const task of handle.changes()) {
    expectTypeOf(task).toEqualTypeOf<TaskStatus<ResultOf<typeof report>>>()
    expectTypeOf(task.createdAt).toEqualTypeOf<string | undefined>()
    if (task.status === 'completed') {
      expectTypeOf(task.result.months).toEqualTypeOf<number[]>()
      // @ts-expect-error a completed task has no error
      console.log(task.error.code)
    }
    if (task.status === 'failed') expectTypeOf(task.error.code).toEqualTypeOf<string>()
    // @ts-expect-error a task that is not completed may have no result
    console.log(task.result.months)
    // @ts-expect-error the wire says `processing`
    if (task.status === 'queued') return
    // @ts-expect-error the name is `status`
    console.log(task.state)
  }
}

// A schedule has the input that the definition takes, and no context.
const yearly = jsonSchema<{ year: number }>({ type: 'object' })
defineTask({ name: 'a', schedule: cron('@daily'), run: () => ({ message: '' }) })
defineTask({
  name: 'b',
  input: yearly,
  schedule: cron('@daily', { input: (time) => ({ year: time.getUTCFullYear() }) }),
  run: ({ year }) => ({ message: String(year) }),
})
// @ts-expect-error the input has no year
defineTask({ name: 'c', input: yearly, schedule: cron('@daily'), run: ({ year }) => ({ message: String(year) }) })
const nonsense = cron('@daily', { input: () => 'nonsense' })
// @ts-expect-error the input is a text
defineTask({ name: 'd', input: yearly, schedule: nonsense, run: ({ year }) => ({ message: String(year) }) })

/** An owner may be in a tenant, and who calls has no other properties to name it by. */
export function tenants(): void {
  interface User { readonly id: string, readonly tenant?: string }
  taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    owner: ({ context: { user } }: HttpRequest<{ user?: User }>) => user && { owner: user.id, tenant: user.tenant },
  })
  taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => ({ owner: undefined }) })
  // @ts-expect-error the owner must be named
  taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => ({ tenant: 'acme' }) })
  // @ts-expect-error a tenant is a string
  taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => ({ owner: 'ann', tenant: 7 }) })
  // @ts-expect-error an owner is found before the handler runs
  taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: async () => ({ owner: 'ann' }) })
  expectTypeOf(tasks.ownedBy('ann', { tenant: 'acme' })).toEqualTypeOf(tasks.ownedBy('ann'))
  void tasks.list({ tenant: 'acme', task: report })
  // @ts-expect-error the tasks of one owner are in one tenant
  void tasks.ownedBy('ann').list({ tenant: 'acme' })
  defineTask({
    name: 'tenant', run: (_input: unknown, { tenant }) => { expectTypeOf(tenant).toEqualTypeOf<string | undefined>() },
  })
}
