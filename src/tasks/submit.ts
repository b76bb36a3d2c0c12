import { after } from '../http/after.js'
import { readJson } from '../http/body.js'
import { isCrossSite } from '../http/cross-site.js'
import { HttpError, httpError, isHttpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse, type MaybePromise } from '../http/exchange.js'
import { isJsonObject } from '../http/json-object.js'
import { checkNames } from '../http/option-names.js'
import { parsePrefer, type Preferences } from '../http/prefer.js'
import { accepted, acceptTask } from './accept-task.js'
import { noCallbacks } from './callbacks.js'
import type { AnyTaskDefinition } from './define.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { parseIdempotencyKey } from './idempotency.js'
import { submitOperations } from './operations.js'
import { countedAs, type Requester } from './requester.js'
import type { FindCallback, ReadWork, Select, Selected, Submission, SubmitEndpointOptions } from './submission.js'
import { answerDirectly } from './sync.js'
import type { Tasks } from './tasks.js'

const KNOWN = { respond: 1, emptyBody: 1, callback: 1 } satisfies Record<keyof SubmitEndpointOptions, unknown>

/** The handler that takes work in (SPEC 4.6, 4.7). */
export function createSubmit<C>(
  settings: EndpointSettings<C>, what: AnyTaskDefinition | Select<C>, options: SubmitEndpointOptions<C> = {},
): Handler<C> {
  const { tasks, maxBodyBytes: maxBytes } = settings
  checkNames('submit', options, KNOWN)
  const { respond = 'prefer', callback = settings.callback } = options
  const always = respond === 'always'
  if (!always && respond !== 'prefer') throw new TypeError('submit: respond must be prefer or always')
  mustHaveCallbacks(tasks, callback)
  if (typeof what !== 'function') mustBeAmong(tasks, what)
  // No async functions: what is at hand goes on without a turn of the microtask queue.
  const handler = (request: HttpRequest<C>): MaybePromise<HttpResponse | undefined> => {
    if (request.method !== 'POST') return undefined
    const requester = settings.requester(request)
    const preferences = parsePrefer(request.headers.prefer)
    const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
    const read = 'emptyBody' in options ? readOrEmpty(request, maxBytes, options) : readJson(request, { maxBytes })
    return after(read, (body) => {
      if (typeof what !== 'function') return take(request, requester, body, { definition: what, input: body }, preferences, idempotencyKey)
      return after(what(body, request), (selected) => take(request, requester, body, selected, preferences, idempotencyKey))
    })
  }
  const take = (
    request: HttpRequest<C>, requester: Requester, body: unknown, { definition, input, pointer }: Selected, preferences: Preferences,
    idempotencyKey: string | undefined,
  ): MaybePromise<HttpResponse> => {
    const judged = pointer === undefined ? tasks.judge(definition, input) : judgeAt(pointer, tasks, definition, input)
    return after(judged, () => {
      const submission: Submission<C> = { definition, input, request, requester, body, idempotencyKey, callbackUrl: undefined }
      if (callback === undefined) return answer(submission, preferences)
      const judged = judgeCallback(tasks, callback, body, request, requester.owner)
      return after(judged, (callbackUrl) => answer({ ...submission, callbackUrl }, preferences))
    })
  }
  const answer = (submission: Submission<C>, { respondAsync, wait: asked }: Preferences): MaybePromise<HttpResponse> => {
    const { request, requester, definition, input, idempotencyKey, callbackUrl } = submission
    if (!always && !respondAsync) {
      if (callbackUrl !== undefined) throw httpError('callback_needs_async')
      return answerDirectly(settings, submission)
    }
    const wait = always || asked === undefined ? 0 : Math.min(asked, settings.maxWaitSeconds)
    if (idempotencyKey !== undefined || wait > 0) return acceptTask(settings, submission, respondAsync, wait)
    // What `acceptTask` comes to in the usual case.
    const taken = tasks.accept(definition, input, {
      owner: requester.owner, counted: countedAs(requester, request), context: settings.context(request), callbackUrl,
    })
    return after(taken, ({ task, created }) => accepted(settings, request, task, { asked: respondAsync, replayed: !created }))
  }
  return describe(handler, submitOperations(settings.face, typeof what === 'function' ? undefined : what, { always, emptyBody: 'emptyBody' in options }))
}

/** `TaskEndpoints.accept`. */
export async function acceptRead<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, definition: AnyTaskDefinition, read: () => MaybePromise<ReadWork>,
): Promise<HttpResponse> {
  const preferences = parsePrefer(request.headers.prefer)
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  const { tasks, callback } = settings
  const requester = settings.requester(request)
  const work = await read()
  try {
    await tasks.judge(definition, work.input)
    const callbackUrl = callback && await judgeCallback(tasks, callback, work.body, request, requester.owner)
    const submission: Submission<C> = { ...work, definition, request, requester, idempotencyKey, callbackUrl }
    const wait = Math.min(preferences.wait ?? 0, settings.maxWaitSeconds)
    return await acceptTask(settings, submission, preferences.respondAsync, wait)
  } catch (error) {
    // Above that, the work may have been taken in although it does not look so.
    if (isHttpError(error) && error.status < 500) await work.discard?.()
    throw error
  }
}

function mustBeAmong(tasks: Tasks, what: AnyTaskDefinition | undefined): void {
  const name = what?.name
  if (!name) throw new TypeError('submit: pass what defineTask made, or a function that selects that')
  if (tasks.definition(name) !== what) throw new TypeError(`submit: ${name} is not among the definitions of createTasks; add it there`)
}

/** Throws a `TypeError` where a callback URL could be given but nobody would call it. */
export function mustHaveCallbacks<C>(tasks: Tasks, callback: FindCallback<C> | undefined): void {
  if (callback && !tasks.hasCallbacks) throw noCallbacks()
}

async function judgeCallback<C>(
  tasks: Tasks, callback: FindCallback<C>, body: unknown, request: HttpRequest<C>, owner: string | undefined,
): Promise<string | undefined> {
  const url = callback(isJsonObject(body) ? body : {}, request)
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
    if (!isHttpError(error) || error.code !== 'missing_body') throw error
    // A Content-Type of JSON proves that the browser has asked this server beforehand.
    if (request.headers['content-type'] === undefined && isCrossSite(request)) throw httpError('cross_site')
    return options.emptyBody
  }
}
