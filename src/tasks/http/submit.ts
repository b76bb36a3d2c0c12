import { readJson } from '../../http/body/body.js'
import { isCrossSite } from '../../http/cross-site.js'
import { HttpError, httpError, isHttpError } from '../../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { isJsonObject } from '../../http/body/json-value.js'
import { checkNames } from '../../runtime/option-names.js'
import { parsePrefer, type Preferences } from '../../http/fields/prefer.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import { noCallbacks } from '../record/callbacks.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { mayBeInUse } from '../record/kept.js'
import { submitOperations } from './operations.js'
import { countedAs } from './requester.js'
import { respondAsync } from './respond-async.js'
import { respondDirectly } from './respond-direct.js'
import { respondOnce, type Wanted } from './respond-once.js'
import type {
  FindCallback, ReadWork, Select, Submission, SubmitEndpointOptions,
} from './submission.js'
import type { TaskService } from '../task-service.js'

const KNOWN = { respond: 1, emptyBody: 1, callback: 1 } satisfies Record<keyof SubmitEndpointOptions, unknown>

/** The handler that takes work in (SPEC 4.6, 4.7). */
export function createSubmit<C>(
  settings: EndpointSettings<C>, what: AnyTaskDefinition | Select<C>, options: SubmitEndpointOptions<C> = {},
): Handler<C> {
  const { service, maxBodyBytes: maxBytes } = settings
  checkNames('submit', options, KNOWN)
  const { respond: manner = 'prefer', callback = settings.callback } = options
  const always = manner === 'always'
  if (!always && manner !== 'prefer') throw new TypeError('submit: respond must be prefer or always')
  mustHaveCallbacks(service, callback)
  if (typeof what !== 'function') mustBeAmong(service, what)
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => (
    request.method === 'POST' ? take(request) : undefined
  )
  const take = async (request: HttpRequest<C>): Promise<HttpResponse> => {
    const requester = settings.requester(request)
    const preferences = parsePrefer(request.headers.prefer)
    const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
    const body = 'emptyBody' in options ? await readOrEmpty(request, maxBytes, options) : await readJson(request, { maxBodyBytes: maxBytes })
    const { definition, input, pointer = '' } = typeof what === 'function' ? await what(body, request) : { definition: what, input: body }
    await judgeAt(pointer, service, definition, input)
    const callbackUrl = callback && await judgeCallback(service, callback, body, request, requester.owner)
    const direct = !always && !preferences.respondAsync
    if (direct && callbackUrl !== undefined) throw httpError('callback_needs_async')
    const wanted = { direct, asked: preferences.respondAsync, wait: always ? 0 : waitOf(settings, preferences) }
    return respond(settings, { definition, input, request, body, requester, idempotencyKey, callbackUrl }, wanted)
  }
  return describe(handler, submitOperations(settings.face, typeof what === 'function' ? undefined : what, { always, emptyBody: 'emptyBody' in options }))
}

/** Does the work of a request or accepts it, as it wants. */
async function respond<C>(settings: EndpointSettings<C>, submission: Submission<C>, wanted: Wanted): Promise<HttpResponse> {
  const { request, requester, definition, input, idempotencyKey, callbackUrl } = submission
  if (idempotencyKey !== undefined) return respondOnce(settings, submission, idempotencyKey, wanted)
  if (wanted.direct) return respondDirectly(settings, submission)
  const { task, created } = await settings.service.accept(definition, input, {
    owner: requester.owner, counted: countedAs(requester, request), context: settings.context(request), callbackUrl,
  })
  return respondAsync(settings, { request, requester }, task, { asked: wanted.asked, replayed: !created, wait: wanted.wait })
}

/** Seconds that a 202 may be held back. */
function waitOf<C>({ maxWaitSeconds }: EndpointSettings<C>, { wait = 0 }: Preferences): number {
  return Math.min(wait, maxWaitSeconds)
}

/** `TaskEndpoints.accept`. */
export async function acceptRead<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, definition: AnyTaskDefinition, read: () => MaybePromise<ReadWork>,
): Promise<HttpResponse> {
  const preferences = parsePrefer(request.headers.prefer)
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  const { service, callback } = settings
  const requester = settings.requester(request)
  const work = await read()
  try {
    await service.judge(definition, work.input)
    const callbackUrl = callback && await judgeCallback(service, callback, work.body, request, requester.owner)
    const submission: Submission<C> = { ...work, definition, request, requester, idempotencyKey, callbackUrl }
    const wanted = { direct: false, asked: preferences.respondAsync, wait: waitOf(settings, preferences) }
    return await respond(settings, submission, wanted)
  } catch (error) {
    if (!mayBeInUse(work.input, error)) await discard(work)
    throw error
  }
}

/** Never rejects: the client is to hear why the request was refused. */
async function discard(work: ReadWork): Promise<void> {
  try {
    await work.discard?.()
  } catch {
    // It expires.
  }
}

function mustBeAmong(service: TaskService, what: AnyTaskDefinition | undefined): void {
  const name = what?.name
  if (!name) throw new TypeError('submit: pass what defineTask made, or a function that selects that')
  if (service.definition(name) !== what) throw new TypeError(`submit: ${name} is not among the definitions of createTasks; add it there`)
}

/** Throws a `TypeError` where a callback URL could be given but nobody would call it. */
export function mustHaveCallbacks<C>(service: TaskService, callback: FindCallback<C> | undefined): void {
  if (callback && !service.hasCallbacks) throw noCallbacks()
}

async function judgeCallback<C>(
  service: TaskService, callback: FindCallback<C>, body: unknown, request: HttpRequest<C>, owner: string | undefined,
): Promise<string | undefined> {
  const url = callback(isJsonObject(body) ? body : {}, request)
  return url === undefined ? undefined : service.checkCallback(url, owner)
}

async function judgeAt(pointer: string, service: TaskService, definition: AnyTaskDefinition, input: unknown): Promise<void> {
  try {
    await service.judge(definition, input)
  } catch (error) {
    if (!isHttpError(error) || !error.details) throw error
    const { status, code, message, headers, cause } = error
    const details = error.details.map((detail) => ({ ...detail, pointer: pointer + detail.pointer }))
    throw new HttpError(status, code, { message, details, headers, cause })
  }
}

async function readOrEmpty<C>(request: HttpRequest<C>, maxBytes: number, options: SubmitEndpointOptions<C>): Promise<unknown> {
  try {
    return await readJson(request, { maxBodyBytes: maxBytes })
  } catch (error) {
    if (!isHttpError(error) || error.code !== 'missing_body') throw error
    // A Content-Type of JSON proves that the browser has asked this server beforehand.
    if (request.headers['content-type'] === undefined && isCrossSite(request)) throw httpError('cross_site')
    return options.emptyBody
  }
}
