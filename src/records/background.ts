import { describe, type Handler, type HttpRequest, type HttpResponse, type Operation } from '../http/exchange.js'
import { parsePrefer, type Preferences } from '../http/headers/prefer.js'
import { acknowledged, addApplied, refuseIdempotencyKey } from '../http/respond.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { AnyTaskDefinition } from '../tasks/definition/define.js'
import type { KeptResponse, OpenRequest, TaskEndpoints } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/settings.js'

/** An endpoint that does its work for the request, or in the background. */
export interface BackgroundEndpoint<T> {
  /** Does the work in the background. Pass it to `createTasks` in `definitions`. */
  readonly task: T
  /**
   * Creates the handler.
   * @param endpoints - the endpoints of the tasks that define `task`
   * @throws {TypeError} `task` is not among the definitions of these tasks, or an option of the
   * tasks does not fit.
   */
  handler<C>(endpoints: TaskEndpoints<C>): Handler<C>
}

/** A request for records. `A`: the type of the options in its headers and its query. */
export interface RecordRequest<A> {
  readonly request: HttpRequest<unknown>
  readonly asked: A
  readonly owner: string | undefined
  readonly tenant: string | undefined
  readonly context: unknown
  /** Does work once for the Idempotency-Key. Absent without a key. */
  readonly once?: (
    body: unknown, work: (began: () => void) => Promise<KeptResponse>,
  ) => Promise<HttpResponse>
  /** Does the work in a task, with these bytes as the body. Absent without `background`. */
  readonly accept?: (bytes?: AsyncIterable<Uint8Array>) => Promise<HttpResponse>
}

/** One kind of work: the parts that its synchronous handler and its background handler share. */
export interface RecordWork<A> {
  /** Name of the public function, for error messages. */
  readonly where: string
  readonly method: string
  /** Checks the headers and the query. */
  readonly ask: (request: HttpRequest<unknown>, prefer: Preferences) => A
  /** Preferences of the request that a task honours, such as `return=minimal`. Default: none. */
  readonly applied?: (asked: A) => readonly string[]
  readonly respond: (request: RecordRequest<A>) => MaybePromise<HttpResponse>
  readonly operation: (hasBackground: boolean) => Operation
}

/** The task of the work. */
export interface RecordTask<A, T extends AnyTaskDefinition> {
  readonly task: T
  /** Writes the body to the blobs, as it was sent. */
  readonly spool: (
    open: OpenRequest, request: HttpRequest<unknown>, asked: A, bytes?: AsyncIterable<Uint8Array>,
  ) => Promise<ReadWork>
  /** Throws a `TypeError` if an option of the tasks does not fit. */
  readonly check?: (endpoints: TaskEndpoints<never>) => void
}

/** Creates the handler of an endpoint without `background`. */
export function recordHandler<A, C>(
  { method, ask, respond, operation }: RecordWork<A>,
): Handler<C> {
  return describe((request: HttpRequest<C>) => {
    if (request.method !== method) return undefined
    refuseIdempotencyKey(request)
    const asked = ask(request, parsePrefer(request.headers['prefer']))
    return respond({ request, asked, owner: undefined, tenant: undefined, context: request.context })
  }, [operation(false)])
}

/** Creates an endpoint whose clients choose: a task for `Prefer: respond-async`, or else at once. */
export function backgroundEndpoint<A, T extends AnyTaskDefinition>(
  work: RecordWork<A>, { task, spool, check }: RecordTask<A, T>,
): BackgroundEndpoint<T> {
  return {
    task,
    handler<C>(endpoints: TaskEndpoints<C>): Handler<C> {
      checkEndpoints(work.where, task, endpoints)
      check?.(endpoints)
      const handle = async (request: HttpRequest<C>): Promise<HttpResponse> => {
        const prefer = parsePrefer(request.headers['prefer'])
        const asked = work.ask(request, prefer)
        const open = endpoints.open(request, prefer)
        const accept = async (bytes?: AsyncIterable<Uint8Array>): Promise<HttpResponse> => {
          const response = await open.accept(task, () => spool(open, request, asked, bytes))
          if (work.applied) addApplied(response.headers, work.applied(asked))
          return response
        }
        if (prefer.respondAsync) return accept()
        return work.respond({
          request, asked, owner: open.owner, tenant: open.tenant, context: open.context(), accept,
          ...open.key !== undefined && { once: (body, once) => open.respondOnce(body, once) },
        })
      }
      return describe((request: HttpRequest<C>) => (
        request.method === work.method ? acknowledged(request, handle) : undefined
      ), [work.operation(true)])
    },
  }
}

/** Checks that a handler gets the endpoints of the tasks that its task is defined in. */
function checkEndpoints<C>(
  where: string, task: AnyTaskDefinition, endpoints: TaskEndpoints<C>,
): void {
  const tasks = endpoints?.tasks
  if (!tasks) throw new TypeError(`${where}: handler needs what taskEndpoints returned`)
  if (tasks.definition(task.name) === task) return
  throw new TypeError(`${where}: the task ${task.name} is not among the definitions`
    + ' of createTasks; add it there')
}
