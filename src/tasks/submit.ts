import { readJson } from '../http/body.js'
import { HttpError, httpError, isHttpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse, type MaybePromise } from '../http/exchange.js'
import { parsePrefer } from '../http/prefer.js'
import { jsonText } from '../http/respond.js'
import type { TaskSnapshot } from './codec.js'
import type { AnyTaskDefinition } from './define.js'
import type { EndpointSettings, ReadWork } from './endpoints.js'
import { CLAIM_MARGIN_MS, claimKey, fingerprintOf, openClaim, parseIdempotencyKey, updateClaim, type HeldClaim } from './idempotency.js'
import { newId } from './ids.js'
import { submitOperations } from './operations.js'
import { isFinal } from './state.js'
import { pollAfter } from './status-headers.js'
import { answerDirectly, replayDirect } from './sync.js'
import type { Tasks } from './tasks.js'
import { toTaskError } from './view.js'

/** Finds the work that a body asks for; throws an `HttpError` (422 `unknown_task`, say) when there is none. */
export type Select<C = unknown> = (body: unknown, request: HttpRequest<C>) => MaybePromise<Selected>

/** One kind of work and its input. */
export interface Selected {
  readonly definition: AnyTaskDefinition
  readonly input: unknown
  /** Where in the body the input is, so that pointers at what is wrong with it begin there: `/data`. Default `''`, all of it. */
  readonly pointer?: string
}

/**
 * Finds the callback URL of a submission, `undefined` for none. `body` is the JSON body, `{}` when that is no object; what is
 * found is judged.
 */
export type FindCallback<C = unknown> = (body: Readonly<Record<string, unknown>>, request: HttpRequest<C>) => unknown

/** How one submit endpoint answers. */
export interface SubmitEndpointOptions<C = unknown> {
  /** `prefer` (default): the client's `Prefer: respond-async` decides. `always`: every request gets a 202. */
  readonly respond?: 'prefer' | 'always'
  /** Takes a request without a body as this value. Default: it is a 400 `missing_body`. */
  readonly emptyBody?: unknown
  /** In place of `callback` of `taskEndpoints`. */
  readonly callback?: FindCallback<C>
}

/** Everything that one submission has become on its way in. */
export interface Submission<C> extends Selected {
  readonly request: HttpRequest<C>
  readonly body: unknown
  readonly owner: string | undefined
  readonly idempotencyKey: string | undefined
  readonly callbackUrl: string | undefined
  readonly discard?: () => unknown
}

/** The handler that takes work in (SPEC 4.6, 4.7). */
export function createSubmit<C>(
  settings: EndpointSettings<C>, what: AnyTaskDefinition | Select<C>, options: SubmitEndpointOptions<C> = {},
): Handler<C> {
  const { tasks, maxBodyBytes: maxBytes } = settings
  const always = options.respond === 'always'
  const { callback = settings.callback } = options
  mustHaveCallbacks(tasks, callback)
  if (typeof what !== 'function' && tasks.definition(what.name) !== what) {
    throw new TypeError(`submit: ${what.name} is not among the definitions of createTasks; add it there`)
  }
  const handler = async (request: HttpRequest<C>): Promise<HttpResponse | undefined> => {
    if (request.method !== 'POST') return undefined
    const preferences = parsePrefer(request.headers.prefer)
    const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
    const body = await ('emptyBody' in options ? readOrEmpty(request, maxBytes, options) : readJson(request, { maxBytes }))
    const selected: Selected = typeof what === 'function' ? await what(body, request) : { definition: what, input: body }
    const { definition, input, pointer } = selected
    const judged = pointer === undefined ? tasks.judge(definition, input) : judgeAt(pointer, tasks, definition, input)
    if (judged) await judged
    const owner = settings.owner(request)
    const callbackUrl = callback && await judgeCallback(tasks, callback, body, request, owner)
    const submission: Submission<C> = { definition, input, request, body, owner, idempotencyKey, callbackUrl }
    const { respondAsync } = preferences
    if (!always && !respondAsync) {
      if (callbackUrl !== undefined) throw httpError('callback_needs_async')
      return answerDirectly(settings, submission)
    }
    const wait = always || preferences.wait === undefined ? 0 : Math.min(preferences.wait, settings.maxWaitSeconds)
    if (idempotencyKey !== undefined || wait > 0) return acceptTask(settings, submission, respondAsync, wait)
    // What `acceptTask` comes to in the usual case, without its turns.
    const { task, created } = await tasks.accept(definition, input, { owner, context: settings.context(request), callbackUrl })
    return accepted(settings, request, task, { asked: respondAsync, replayed: !created })
  }
  return describe(handler, submitOperations(settings.face, always, typeof what === 'function' ? undefined : what))
}

/** `TaskEndpoints.accept`. */
export async function acceptRead<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, definition: AnyTaskDefinition, read: () => MaybePromise<ReadWork>,
): Promise<HttpResponse> {
  const preferences = parsePrefer(request.headers.prefer)
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  const work = await read()
  const { tasks, callback } = settings
  const owner = settings.owner(request)
  try {
    await tasks.judge(definition, work.input)
    const callbackUrl = callback && await judgeCallback(tasks, callback, work.body, request, owner)
    const submission: Submission<C> = { ...work, definition, request, owner, idempotencyKey, callbackUrl }
    const wait = Math.min(preferences.wait ?? 0, settings.maxWaitSeconds)
    return await acceptTask(settings, submission, preferences.respondAsync, wait)
  } catch (error) {
    // Above that, the work may have been taken in although it does not look so.
    if (isHttpError(error) && error.status < 500) await work.discard?.()
    throw error
  }
}

/** Throws a `TypeError` where a callback URL could be given but nobody would call it. */
export function mustHaveCallbacks<C>(tasks: Tasks, callback: FindCallback<C> | undefined): void {
  if (callback && !tasks.hasCallbacks) {
    throw new TypeError('callback: createTasks has no callbacks; give it { sender: httpSender(), secrets }')
  }
}

async function judgeCallback<C>(
  tasks: Tasks, callback: FindCallback<C>, body: unknown, request: HttpRequest<C>, owner: string | undefined,
): Promise<string | undefined> {
  const members = typeof body === 'object' && body !== null && !Array.isArray(body) ? body as Record<string, unknown> : {}
  const url = callback(members, request)
  return url === undefined ? undefined : tasks.checkCallback(url, owner)
}

async function judgeAt(pointer: string, tasks: Tasks, definition: AnyTaskDefinition, input: unknown): Promise<void> {
  try {
    await tasks.judge(definition, input)
  } catch (error) {
    if (!isHttpError(error) || !error.details) throw error
    const { status, code, message, headers, cause } = error
    const details = error.details.map((detail) => ({ ...detail, pointer: pointer + detail.pointer }))
    throw new HttpError(status, code, { message, details, headers, cause })
  }
}

async function readOrEmpty<C>(request: HttpRequest<C>, maxBytes: number, options: SubmitEndpointOptions<C>): Promise<unknown> {
  try {
    return await readJson(request, { maxBytes })
  } catch (error) {
    if (isHttpError(error) && error.code === 'missing_body') return options.emptyBody
    throw error
  }
}

/** Takes a task in and answers 202, or with its result when it ends within `wait` seconds. */
export async function acceptTask<C>(settings: EndpointSettings<C>, submission: Submission<C>, asked: boolean, wait: number): Promise<HttpResponse> {
  const { tasks } = settings
  const { request, definition, input, body, owner, idempotencyKey, callbackUrl } = submission
  const context = settings.context(request)
  // The longest that its record may live, should nobody be there to settle the claim.
  const expiresAt = Date.now() + tasks.pendingMs + (definition.retentionMs ?? tasks.retentionMs) + CLAIM_MARGIN_MS
  let claim: HeldClaim | undefined
  let id: string | undefined
  if (idempotencyKey !== undefined) {
    const key = claimKey(request, owner, idempotencyKey)
    const fingerprint = fingerprintOf(body)
    const opened = await openClaim(tasks.store, key, { kind: 'task', fingerprint, taskId: newId(), accepted: false }, expiresAt)
    claim = opened.held
    if (claim.claim.kind === 'sync') return replayDirect(claim.claim)
    if (claim.claim.accepted) {
      const task = await tasks.look(claim.claim.taskId)
      if (!task) throw httpError('idempotent_task_gone')
      await submission.discard?.()
      return accepted(settings, request, task, { asked, replayed: true })
    }
    id = claim.claim.taskId
  }
  const { task, created } = await tasks.accept(definition, input, { owner, id, context, callbackUrl, claim: claim?.key })
  if (claim?.claim.kind === 'task') {
    // The task is in, whether this lands or not; a retry, or the end of the task, writes it too.
    await updateClaim(tasks.store, claim, { ...claim.claim, accepted: true }, { expiresAt }).catch(() => undefined)
  }
  if (wait === 0) return accepted(settings, request, task, { asked, replayed: !created })
  const now = await waitForIt(settings, request, task, wait)
  if (!isFinal(now.state)) return accepted(settings, request, now, { asked, replayed: !created, waited: wait })
  if (now.state !== 'completed') throw toTaskError(now)
  const { result } = JSON.parse(now.face) as { result: unknown }
  return jsonText(200, JSON.stringify(result), { vary: 'Prefer', 'preference-applied': `wait=${String(wait)}` })
}

/** `respond-async, wait=N` (RFC 7240 4.3): the task when it has ended, or as it is when the time is over. */
async function waitForIt<C>(settings: EndpointSettings<C>, request: HttpRequest<C>, task: TaskSnapshot, seconds: number): Promise<TaskSnapshot> {
  const place = settings.tasks.waiters.enter(request.signal)
  if (!place) return task
  try {
    return await settings.tasks.wait(task.id, { timeoutMs: seconds * 1000, signal: place.signal }) ?? task
  } finally {
    place.leave()
  }
}

interface AcceptedHow {
  /** Whether the client asked for it by `respond-async`. */
  readonly asked: boolean
  readonly replayed: boolean
  /** Seconds that were waited for the end before answering. */
  readonly waited?: number
}

/** The 202: where the status is, and what it shows now. */
export function accepted<C>(settings: EndpointSettings<C>, request: HttpRequest<C>, task: TaskSnapshot, how: AcceptedHow): HttpResponse {
  const location = settings.path.of(request.mountPath, task.id)
  const response = jsonText(202, settings.face.toText(task, location), {
    location,
    'content-location': location,
    'vary': 'Prefer',
  })
  if (!isFinal(task.state)) response.headers['retry-after'] = pollAfter(task)
  if (how.asked) response.headers['preference-applied'] = how.waited === undefined ? 'respond-async' : `respond-async, wait=${String(how.waited)}`
  if (how.replayed) response.headers['idempotent-replayed'] = 'true'
  return response
}
