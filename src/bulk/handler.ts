import { after } from '../runtime/maybe-promise.js'
import { httpError } from '../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type Operation,
} from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { parsePrefer } from '../http/fields/prefer.js'
import { answerDirectly } from './answer-direct.js'
import { DirectCall } from './direct-call.js'
import { checkHead, readIntake } from './intake.js'
import type { BulkBackground } from './options.js'
import type { Plan } from './plan.js'
import type { Shown } from './report.js'
import { shownTo } from './shown.js'
import { serviceOf } from '../tasks/service-of.js'

/** The handler of a plan. Throws a `TypeError` where the background does not fit. */
export function bulkHandler<T, C>(name: string, plan: Plan<T>, background: BulkBackground<C> | undefined, operation: Operation): Handler<C> {
  if (background) checkBackground(name, plan, background)
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => {
    if (request.method !== plan.method) return undefined
    checkHead(plan, request)
    const shown = shownTo(request)
    if (background) {
      const { endpoints, task } = background
      const { prefer, 'idempotency-key': key } = request.headers
      if (prefer !== undefined && parsePrefer(prefer).respondAsync) return endpoints.accept(request, task, () => task.spool(request, shown))
      if (key !== undefined) return answerOnce(plan, request, background, shown)
    }
    return answer(plan, request, shown)
  }
  return describe(handler, [operation])
}

async function answer<T>(plan: Plan<T>, request: HttpRequest, shown: Shown): Promise<HttpResponse> {
  const intake = await readIntake(plan, request)
  return after(answerDirectly(plan, request, intake, shown, new DirectCall(request)), ({ response }) => response)
}

/**
 * The request of a retry may come when the client of the first has gone, so that one goes on to its
 * end.
 */
async function answerOnce<T, C>(plan: Plan<T>, request: HttpRequest<C>, { endpoints }: BulkBackground<C>, shown: Shown): Promise<HttpResponse> {
  const intake = await readIntake(plan, request)
  if (!intake.whole) {
    await intake.close()
    throw httpError('idempotency_needs_async', {
      message: 'A body of this size can have an Idempotency-Key only when it is taken in the background: send "Prefer: respond-async", or leave the key out.',
    })
  }
  const [batch] = intake.batches
  return endpoints.answerOnce(request, batch.items, async (began) => {
    const call = { signal: new AbortController().signal, context: request.context }
    // It throws when nothing was done.
    const { response, summary } = await answerDirectly(plan, request, intake, shown, call)
    began()
    return { response, short: JSON.stringify({ summary }) }
  })
}

const BACKGROUND = { endpoints: 0, task: 0 } satisfies Record<keyof BulkBackground<unknown>, 0>

function checkBackground<T, C>(name: string, { kind }: Plan<T>, background: BulkBackground<C>): void {
  checkNames(`${name}: background`, background, BACKGROUND)
  const { endpoints, task } = background
  const { tasks } = endpoints
  if (task.kind !== kind) throw new TypeError(`${name}: background.task is of the other bulk endpoint; make it with ${name}Task`)
  if (tasks.definition(task.name) !== task) throw new TypeError(`${name}: ${task.name} is not among the definitions of createTasks; add it there`)
  const { maxResultBytes } = serviceOf(tasks, name)
  if (task.maxInlineBytes + 1024 <= maxResultBytes) return
  throw new TypeError(`${name}: maxInlineBytes of the task must be 1024 or more below maxResultBytes of createTasks, which is ${maxResultBytes}`)
}
