import { countingBody, type CountedBody } from '../../http/body/counted-body.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import { acknowledged, empty } from '../../http/respond.js'
import { claimKey, parseIdempotencyKey } from '../../idempotency/key.js'
import {
  buffered, oncePerKey, type KeptResponse, type OnceWork,
} from '../../idempotency/once.js'
import { countedAs } from '../../http/requester.js'
import { after, type MaybePromise } from '../../runtime/maybe-promise.js'
import { func, oneOf, readOptions, value, type OptionTable } from '../../runtime/options.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { acceptSubmission, findTask, type AcceptedSubmission, type AcceptedTask } from './accept.js'
import { submitOperations } from './operations.js'
import { acquireWaiterSlot, respond } from './respond.js'
import { acquireRunPlace, runHere } from './run-here.js'
import { checkCallbackOption, jsonContext, type EndpointSettings } from './settings.js'
import {
  readBody, readSubmission, requestFingerprint, type SelectedWork, type SubmissionSource,
} from './submission.js'
import type { ReadWork, Select, SubmitEndpointOptions } from './submit-options.js'

const OPTIONS = {
  respond: oneOf(['prefer', 'always'], { default: 'prefer' }),
  emptyBody: value(), callback: func(), startAt: func(), context: func(), transaction: func(),
} satisfies OptionTable<SubmitEndpointOptions>

export function createSubmit<C>(
  shared: EndpointSettings<C>, what: AnyTaskDefinition | Select<C>,
  options: SubmitEndpointOptions<C> = {},
): Handler<C> {
  const {
    respond: mode, callback = shared.callback, startAt = shared.startAt, context, transaction,
  } = readOptions('submit', options, OPTIONS)
  const settings = context ? { ...shared, context: jsonContext(context) } : shared
  const { service, maxBodyBytes } = settings
  checkCallbackOption(service, callback)
  if (transaction && !service.core.engine.hasTransactions) {
    throw new TypeError('submit: transaction needs the engine of longhaul/postgres')
  }
  const definition = typeof what === 'function' ? undefined : what
  if (!what?.name && typeof what !== 'function') {
    throw new TypeError('submit: pass what defineTask returned, or a function that selects a definition')
  }
  if (typeof what !== 'function') service.mustHave(what)
  const choose = async (select: Select<C>, body: unknown, request: HttpRequest<C>): Promise<SelectedWork> => {
    const { definition, input, pointer = '' } = await select(body, request)
    service.mustHave(definition)
    return { definition, input, pointer, body }
  }
  const read = (request: HttpRequest<C>): MaybePromise<SelectedWork> => (
    after(readBody(request, maxBodyBytes, options), (json) => (typeof what === 'function'
      ? choose(what, json.value, request)
      : { definition: what, input: json.value, json, body: json.value }
    ))
  )
  const source = { read, callback, startAt, mode, transaction }
  const handler: Handler<C> = (request) => (
    request.method === 'POST' ? submit(settings, request, source) : undefined
  )
  return describe(handler, submitOperations(settings.format, definition, {
    always: mode === 'always', emptyBody: 'emptyBody' in options, startAt: startAt !== undefined,
  }))
}

export function acceptRead<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, definition: AnyTaskDefinition,
  readWork: () => MaybePromise<ReadWork>,
): Promise<HttpResponse> {
  const { service, callback, startAt } = settings
  service.mustHave(definition)
  const read = async (): Promise<SelectedWork> => ({ ...await readWork(), definition })
  return submit(settings, request, { read, callback, startAt, mode: 'async' })
}

/** Reads a submission, accepts it and responds. All submissions over HTTP take this path. */
function submit<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, source: SubmissionSource<C>,
): Promise<HttpResponse> {
  return acknowledged(request, () => countingBody(request, (counted, body) => (
    readAndRespond(settings, counted, source, body)
  )))
}

/**
 * Does the work of `submit`. Ends before a wait for the task begins, so that a request that waits
 * keeps no input in memory.
 *
 * @param body - the body, if its memory counts until it is accepted
 */
async function readAndRespond<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, source: SubmissionSource<C>,
  body: CountedBody | undefined,
): Promise<HttpResponse> {
  const submission = await readSubmission(settings, request, source)
  const { submitter } = submission
  if (!submitter.direct) {
    const accepted = await acceptSubmission(settings, submission)
    body?.release()
    return respond(settings, submitter, accepted)
  }
  const place = acquireRunPlace(settings, submission)
  if (place) {
    body?.release()
    return runHere(settings, submission, place)
  }
  const slot = acquireWaiterSlot(settings, submitter)
  if (!slot) return empty(503)
  let accepted: AcceptedSubmission
  try {
    accepted = await acceptSubmission(settings, submission)
  } catch (error) {
    slot.release()
    throw error
  }
  body?.release()
  return respond(settings, submitter, accepted, slot)
}

/**
 * Implements `TaskEndpoints.respondOnce`: does the work of a synchronous request once for each
 * Idempotency-Key, and stores the response for retries.
 */
export function respondOnce<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, body: unknown, work: OnceWork<KeptResponse>,
): Promise<HttpResponse> {
  return acknowledged(request, async () => {
    const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
    if (idempotencyKey === undefined) return (await work(() => undefined)).response
    const { service, syncTimeoutMs } = settings
    const { store, retentionMs, maxResultBytes: maxBytes } = service
    const { owner } = settings.requester(request)
    const caller = countedAs(request, owner)
    const key = claimKey(request, owner, idempotencyKey)
    const fingerprint = requestFingerprint(request, body)
    let earlier: AcceptedTask | undefined
    const response = await oncePerKey(request, {
      store, key, fingerprint, waitMs: syncTimeoutMs, retentionMs, maxBytes, owner: caller,
    }, async (began) => {
      // Under the claim, because a request for the background creates its task under the same claim.
      earlier = await findTask(service, key, owner, fingerprint)
      if (earlier) return undefined
      const kept = await work(began)
      return { ...kept, response: await buffered(kept.response, maxBytes) }
    })
    if (earlier) {
      const submitter = { request, owner, caller, direct: true, respondAsync: false, waitSeconds: 0 }
      return respond(settings, submitter, earlier)
    }
    // Otherwise the client has disconnected.
    return response ?? empty(503)
  })
}
