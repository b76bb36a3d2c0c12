import { isFinalStatus } from '../../engine/task.js'
import { readJsonBody } from '../../http/body/body.js'
import { countingBody, type CountedBody } from '../../http/body/counted-body.js'
import { isJsonObject } from '../../http/body/json.js'
import { isCrossSite } from '../../http/cross-site.js'
import { HttpError, httpError, isHttpError } from '../../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type ResponseHeaders,
} from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { acknowledged, empty, errorResponse, jsonText } from '../../http/respond.js'
import { claimKey, fingerprintOf } from '../../idempotency/key.js'
import { buffered, oncePerKey, type KeptResponse, type OnceWork } from '../../idempotency/once.js'
import { Json } from '../../runtime/json.js'
import { isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import { func, oneOf, readOptions, value, type OptionTable } from '../../runtime/options.js'
import { checkInput } from '../core/accept-task.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { detailsOf } from '../record/details.js'
import { pausesWait, waitFor, type WaiterSlot } from '../record/subscriptions.js'
import { resultText, toTaskError } from '../record/view.js'
import {
  accept, acceptedResponse, discardInput, findTask, onceOptions, readHead,
  type AcceptedSubmission, type RequestHead, type RequestSubmission, type Submitter, type TaskOfRequest,
} from './accept.js'
import { acquireRunPlace, acquireWaiterSlot, respondWithEnd, runHere } from './direct.js'
import { submitOperations, withOwner } from './operations.js'
import {
  CALLBACK, jsonContext, readCallback, type CallbackSource, type EndpointSettings,
  type FindStart, type ReadWork, type Select, type Selected, type SubmitEndpointOptions, type SubmitTransaction,
} from './settings.js'
import { parseStart } from './start-at.js'

interface SelectedWork extends ReadWork, Selected {
  readonly json?: Json
  /** Callback URL that the request names, once it is checked. */
  readonly callbackUrl?: string | undefined
}

/** Functions that read the body of a request, of type `B`, and select its work. */
interface SubmissionSource<C, B = unknown> {
  /** Reads the body. Called once the headers are valid. */
  read(request: HttpRequest<C>): MaybePromise<B>
  select(body: B, request: HttpRequest<C>): MaybePromise<SelectedWork>
  readonly callback: CallbackSource<C> | undefined
  readonly startAt: FindStart<C> | undefined
  /** `prefer`: the client's `Prefer` decides. `always`: a 202 at once. `async`: a 202 after its `wait`. */
  readonly mode: 'prefer' | 'always' | 'async'
  readonly transaction?: SubmitTransaction<C> | undefined
}

const OPTIONS = {
  respond: oneOf(['prefer', 'always'], { default: 'prefer' }),
  emptyBody: value(), callback: CALLBACK, startAt: func(), context: func(), transaction: func(),
} satisfies OptionTable<SubmitEndpointOptions>

export function createSubmit<C>(
  shared: EndpointSettings<C>, what: AnyTaskDefinition | Select<C>,
  options: SubmitEndpointOptions<C> = {},
): Handler<C> {
  const {
    respond: mode, callback: ownCallback, startAt = shared.startAt, context, transaction,
  } = readOptions('submit', options, OPTIONS)
  const settings = context ? { ...shared, context: jsonContext(context) } : shared
  const { core, maxBodyBytes } = settings
  const callback = readCallback(core, ownCallback) ?? shared.callback
  if (transaction && !core.engine.hasTransactions) {
    throw new TypeError('submit: transaction needs the engine of longhaul/postgres')
  }
  const definition = typeof what === 'function' ? undefined : what
  if (typeof what !== 'function' && !what?.name) {
    throw new TypeError('submit: pass what defineTask returned, or a function that selects a definition')
  }
  if (definition) core.mustHave(definition)
  const isOptional = 'emptyBody' in options
  const source: SubmissionSource<C, Json> = {
    read: (request) => (isOptional
      ? readOptionalBody(request, maxBodyBytes, options.emptyBody) : readJsonBody(request, { maxBodyBytes })),
    select: typeof what !== 'function'
      ? (json) => ({ definition: what, input: json.value, json, body: json.value })
      : async ({ value: body }, request) => {
        const { definition: selected, input, pointer = '' } = await what(body, request)
        core.mustHave(selected)
        return { definition: selected, input, pointer, body }
      },
    callback, startAt, mode, transaction,
  }
  // 1. Owner, Prefer and Idempotency-Key. Until then, nothing of the body is read.
  const submit = countingBody((request: HttpRequest<C>, body?: CountedBody) => (
    readAndRespond(settings, readHead(settings, request), source, body)
  ))
  const handler: Handler<C> = (request) => (
    request.method === 'POST' ? acknowledged(request, submit) : undefined
  )
  return describe(handler, withOwner(settings, submitOperations(settings.format, definition, {
    always: mode === 'always', emptyBody: isOptional, startAt: startAt !== undefined, callback,
  })))
}

/** Accepts work that a handler has read. Responds as to `Prefer: respond-async`. */
export function acceptRead<C>(
  settings: EndpointSettings<C>, head: RequestHead<C>, definition: AnyTaskDefinition,
  readWork: () => ReadWork | Promise<ReadWork>,
): Promise<HttpResponse> {
  const { core, callback, startAt } = settings
  core.mustHave(definition)
  return readAndRespond(settings, head, {
    read: readWork, select: (work) => ({ ...work, definition }), callback, startAt, mode: 'async',
  })
}

/**
 * The path of a submission, from its body to its response. Ends before the request begins to wait for the
 * task, so that waiting requests keep no input.
 */
async function readAndRespond<C, B>(
  settings: EndpointSettings<C>, head: RequestHead<C>, source: SubmissionSource<C, B>,
  body?: CountedBody,
): Promise<HttpResponse> {
  // 2. The body: which work, its input, its callback and its start.
  const selecting = source.select(await source.read(head.request), head.request)
  const work = isPending(selecting) ? await selecting : selecting
  const reading = readSubmission(settings, head, source, work)
  const submission = isPending(reading) ? await reading : reading
  const { submitter, submitter: { isDirect: asksDirect }, definition: { pool } } = submission
  // 3. A synchronous request runs here, without a task, if the work allows it and a place is free.
  if (asksDirect && settings.core.hasForeignPauses(pool)) await settings.core.readPauses()
  const place = asksDirect ? acquireRunPlace(settings, submission) : undefined
  if (place) {
    body?.release()
    return runHere(settings, submission, place)
  }
  // 4. All others become a task. A synchronous request needs a slot, because it waits for the end.
  const slot = asksDirect ? acquireWaiterSlot(settings, submitter) : undefined
  if (asksDirect && !slot) return empty(503)
  let accepted: AcceptedSubmission
  try {
    const accepting = accept(settings, submission)
    accepted = isPending(accepting) ? await accepting : accepting
  } catch (error) {
    slot?.release()
    throw error
  }
  body?.release()
  // 5. The result, or a 202.
  return respond(settings, submitter, accepted, slot)
}

/** Checks work, and adds what else the request says of it. */
function readSubmission<C>(
  settings: EndpointSettings<C>, head: RequestHead<C>, source: SubmissionSource<C>, work: SelectedWork,
): MaybePromise<RequestSubmission<C>> {
  const { definition, input, pointer = '', discard } = work
  if (source.callback !== undefined || pointer !== '' || discard !== undefined) {
    return readWithCallback(settings, head, source, work)
  }
  const checking = checkInput(definition, input)
  if (isPending(checking)) return checking.then(() => toSubmission(settings, head, source, work))
  return toSubmission(settings, head, source, work)
}

/** The same for work that a request may name a callback for, is part of a body, or has input to discard. */
async function readWithCallback<C>(
  settings: EndpointSettings<C>, head: RequestHead<C>, source: SubmissionSource<C>, work: SelectedWork,
): Promise<RequestSubmission<C>> {
  const { definition, input, body, pointer = '' } = work
  try {
    try {
      await checkInput(definition, input)
    } catch (error) {
      throw below(pointer, error)
    }
    const url = source.callback?.find(membersOf(body), head.request)
    const callbackUrl = url === undefined ? undefined : await settings.core.checkCallback(url, head.owner)
    return toSubmission(settings, head, source, { ...work, callbackUrl })
  } catch (error) {
    await discardInput(work)
    throw error
  }
}

function toSubmission<C>(
  { maxWaitSeconds, context, access }: EndpointSettings<C>, head: RequestHead<C>,
  { startAt, mode, transaction }: SubmissionSource<C>, work: SelectedWork,
): RequestSubmission<C> {
  const { request, owner, caller, prefer: { respondAsync, wait = 0 }, key } = head
  const { definition, input, json, body, callbackUrl } = work
  const time = startAt?.(membersOf(body), request)
  const findStart = time === undefined ? undefined : parseStart(time, body)
  // RFC 7240 section 2: a preference is no demand. There is no result before the start.
  const asksDirect = mode === 'prefer' && !respondAsync && findStart === undefined
  if (asksDirect && callbackUrl !== undefined) throw httpError('callback_needs_async')
  const waitSeconds = mode === 'always' ? 0 : Math.min(wait, maxWaitSeconds)
  return {
    submitter: { request, owner, caller, isDirect: asksDirect, respondAsync, waitSeconds },
    definition, input, json, owner, caller, isRequest: true, isDirect: asksDirect,
    byOperator: access !== undefined,
    context: context?.(request), callbackUrl, findStart, work, runTransaction: transaction,
    idempotency: key === undefined ? undefined : {
      key: claimKey(request, owner, key), fingerprint: requestFingerprint(request, body),
      isShared: mode === 'async',
    },
  }
}

function membersOf(body: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(body) ? body : {}
}

function below(pointer: string, error: unknown): unknown {
  if (pointer === '' || !isHttpError(error) || !error.details) return error
  const { status, code, message, headers, cause } = error
  const details = error.details.map((detail) => ({ ...detail, pointer: pointer + detail.pointer }))
  return new HttpError(status, code, { message, details, headers, cause })
}

export async function readOptionalBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, emptyBody: unknown,
): Promise<Json> {
  try {
    return await readJsonBody(request, { maxBodyBytes })
  } catch (error) {
    if (!isHttpError(error) || error.code !== 'missing_body') throw error
    // With a Content-Type of JSON, the browser has asked this server beforehand (CORS).
    if (request.headers['content-type'] === undefined && isCrossSite(request)) {
      throw httpError('cross_site')
    }
    return Json.of(emptyBody)
  }
}

function requestFingerprint(request: HttpRequest<unknown>, body: unknown): string {
  return fingerprintOf([request.search ?? request.query.toString(), body])
}

/**
 * Responds to an accepted submission: with the result, if the first request with its key was
 * synchronous; else with 202, or with the result if the task ends within `waitSeconds` (RFC 7240
 * section 4.3).
 *
 * @param slot - slot of a synchronous request, which is released here
 */
export function respond<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, accepted: AcceptedSubmission,
  slot?: WaiterSlot,
): MaybePromise<HttpResponse> {
  // The first request with a key decides.
  const isDirect = 'task' in accepted && (accepted.task.key === undefined
    ? submitter.isDirect : detailsOf(accepted.task).isDirect === true)
  if (isDirect) return respondWithEnd(settings, submitter, accepted, slot)
  slot?.release()
  return 'task' in accepted ? respondAccepted(settings, submitter, accepted) : accepted
}

/** Responds with 202, or with the result if the task ends within `waitSeconds`. */
export function respondAccepted<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, accepted: TaskOfRequest,
): MaybePromise<HttpResponse> {
  if (submitter.waitSeconds > 0 && !submitter.isDirect) return respondAfterWait(settings, submitter, accepted)
  const preference = submitter.respondAsync ? 'respond-async' : undefined
  return acceptedResponse(settings, submitter.request, accepted, preference)
}

async function respondAfterWait<C>(
  settings: EndpointSettings<C>, { request, caller, respondAsync, waitSeconds }: Submitter<C>,
  { task, created }: TaskOfRequest,
): Promise<HttpResponse> {
  const { core, path } = settings
  const wait = `wait=${waitSeconds}`
  let now = task
  const waiter = core.waiters.tryAcquire(request.signal, caller)
  if (waiter) {
    try {
      const options = { timeoutMs: waitSeconds * 1000, signal: waiter.signal, until: pausesWait }
      now = await waitFor(core.subscriptions, task.id, task, options) ?? task
    } finally {
      waiter.release()
    }
  }
  if (!isFinalStatus(now.status)) {
    const preference = respondAsync ? `respond-async, ${wait}` : undefined
    return acceptedResponse(settings, request, { task: now, created }, preference)
  }
  const location = path.location(request.mountPath, task.id)
  const headers: ResponseHeaders = { location, vary: 'Prefer', 'preference-applied': wait }
  if (!created) headers['idempotent-replayed'] = 'true'
  if (now.status === 'completed') return jsonText(200, resultText(now), headers)
  // Not thrown, because the process that ran the task has reported the failure.
  const failure = toTaskError(now)
  addFailureHeaders(failure, headers)
  return errorResponse(failure, request)
}

/** Does work once for the key of a request, and repeats its response. */
export async function respondOnce<C>(
  settings: EndpointSettings<C>, head: RequestHead<C>, body: unknown, work: OnceWork<KeptResponse>,
): Promise<HttpResponse> {
  const { request, owner, caller, key: idempotencyKey } = head
  if (idempotencyKey === undefined) return (await work(() => undefined)).response
  const key = claimKey(request, owner, idempotencyKey)
  const fingerprint = requestFingerprint(request, body)
  let finding: ReturnType<typeof findTask> | undefined
  const once = onceOptions(settings, key, fingerprint, caller)
  const response = await oncePerKey(request, once, async (began) => {
    // After the claim: a task that is created later finds the claim before its first run.
    finding = findTask(settings.core, key, owner, fingerprint)
    if (await finding.catch(() => true)) return undefined
    const kept = await work(began)
    return { ...kept, response: await buffered(kept.response, once.maxBytes) }
  })
  const earlier = await finding
  if (earlier) {
    const submitter = { request, owner, caller, isDirect: true, respondAsync: false, waitSeconds: 0 }
    return respond(settings, submitter, earlier)
  }
  return response ?? empty(503)
}
