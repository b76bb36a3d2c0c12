import { countingBody, type CountedBody } from '../../http/body/counted-body.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import { acknowledged, empty } from '../../http/respond.js'
import { checkNames } from '../../runtime/option-names.js'
import { after, type MaybePromise } from '../../runtime/maybe-promise.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { noCallbacks } from '../core/task-core.js'
import type { WaiterSlot } from '../record/subscriptions.js'
import type { TaskService } from '../core/task-service.js'
import { acceptSubmission, acceptUnderClaim, type AcceptedSubmission } from './accept-submission.js'
import { jsonContext, type EndpointSettings } from './endpoint-settings.js'
import { submitOperations } from './operations.js'
import { respondAccepted } from './respond-async.js'
import { acquireWaiterSlot, respondTemporary, respondWithResult } from './respond-direct.js'
import { acquireRunPlace, runHere } from './run-here.js'
import { submitInTransaction } from './submit-in-transaction.js'
import {
  readBody, readSubmission, type Submission, type SubmissionSource, type Submitter,
} from './submission.js'
import type {
  FindCallback, ReadWork, Select, SubmitEndpointOptions,
} from './submit-endpoint-options.js'

const KNOWN = {
  respond: 1, emptyBody: 1, callback: 1, startAt: 1, context: 1, transaction: 1,
} satisfies Record<keyof SubmitEndpointOptions, unknown>

/** Creates the handler that accepts work with a JSON body (SPEC 4.6, 4.7). */
export function createSubmit<C>(
  shared: EndpointSettings<C>, what: AnyTaskDefinition | Select<C>,
  options: SubmitEndpointOptions<C> = {},
): Handler<C> {
  checkNames('submit', options, KNOWN)
  const { context, transaction } = options
  if (transaction !== undefined) {
    if (typeof transaction !== 'function') {
      throw new TypeError('submit: transaction must be a function (request, input, submit)')
    }
    if (!shared.service.core.engine.hasTransactions) {
      throw new TypeError('submit: transaction needs the engine of longhaul/postgres')
    }
  }
  const settings = context ? { ...shared, context: jsonContext(context) } : shared
  const { service, maxBodyBytes } = settings
  const { respond: mode = 'prefer', callback = settings.callback } = options
  const { startAt = settings.startAt } = options
  if (mode !== 'prefer' && mode !== 'always') {
    throw new TypeError('submit: respond must be prefer or always')
  }
  mustHaveCallbacks(service, callback)
  if (typeof what !== 'function') mustBeDefined(service, what)
  const read = typeof what === 'function'
    ? async (request: HttpRequest<C>) => {
      const { value: body } = await readBody(request, maxBodyBytes, options)
      return { ...await what(body, request), body }
    }
    : (request: HttpRequest<C>) => after(readBody(request, maxBodyBytes, options), (json) => (
      { definition: what, input: json.value, json, body: json.value }
    ))
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => (
    request.method === 'POST' ? answer(settings, request, { read, callback, startAt, mode, transaction }) : undefined
  )
  const definition = typeof what === 'function' ? undefined : what
  return describe(handler, submitOperations(settings.format, definition, {
    always: mode === 'always', emptyBody: 'emptyBody' in options, startAt: startAt !== undefined,
  }))
}

/** Implements `TaskEndpoints.accept`: accepts work whose body a handler of the host reads. */
export function acceptRead<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, definition: AnyTaskDefinition,
  read: () => MaybePromise<ReadWork>,
): Promise<HttpResponse> {
  return answer(settings, request, {
    read: async () => ({ ...await read(), definition }), callback: settings.callback,
    startAt: settings.startAt, mode: 'async', transaction: undefined,
  })
}

/** Reads a submission, accepts it and answers it. All submissions over HTTP take this path. */
function answer<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, source: SubmissionSource<C>,
): Promise<HttpResponse> {
  return acknowledged(request, () => countingBody(request, (counted, body) => (
    accept(settings, counted, source, body)
  )))
}

/** @param body - the body, if its memory counts until it is accepted */
async function accept<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, source: SubmissionSource<C>,
  body: CountedBody | undefined,
): Promise<HttpResponse> {
  const submission = await readSubmission(settings, request, source)
  const place = acquireRunPlace(settings, submission)
  if (place) {
    body?.release()
    return runHere(settings, submission, place)
  }
  const slot = submission.direct ? acquireWaiterSlot(settings, submission) : undefined
  if (submission.direct && !slot) return empty(503)
  let accepted: AcceptedSubmission
  const { transaction } = submission
  try {
    if (transaction) accepted = await submitInTransaction(settings, submission, transaction)
    else if (submission.claimsKey) accepted = await acceptUnderClaim(settings, submission)
    else accepted = await acceptSubmission(settings, submission)
  } catch (error) {
    slot?.release()
    throw error
  }
  body?.release()
  // A request that waits for its task must not keep the input in memory.
  return respond(settings, withoutInput(submission), accepted, slot)
}

/**
 * Answers an accepted submission. The first request with a key decides whether the answer is
 * direct.
 *
 * @param slot - the slot of a request that asked for a direct answer. It is released here.
 */
export function respond<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, accepted: AcceptedSubmission,
  slot: WaiterSlot | undefined,
): MaybePromise<HttpResponse> {
  // Only a direct request has a temporary task, so it has a slot.
  if (accepted.kind === 'temporary') {
    return respondTemporary(settings, submitter, accepted.task, slot as WaiterSlot)
  }
  if (accepted.kind === 'task' && accepted.direct) {
    return respondWithResult(settings, submitter, accepted, slot)
  }
  slot?.release()
  return accepted.kind === 'stored'
    ? accepted.response
    : respondAccepted(settings, submitter, accepted)
}

function withoutInput<C>(
  { request, requester, direct, respondAsync, waitSeconds }: Submission<C>,
): Submitter<C> {
  return { request, requester, direct, respondAsync, waitSeconds }
}

function mustBeDefined(service: TaskService, what: AnyTaskDefinition | undefined): void {
  const name = what?.name
  if (!name) {
    throw new TypeError('submit: pass what defineTask made, or a function that selects that')
  }
  if (service.definition(name) !== what) {
    throw new TypeError(`submit: ${name} is not among the definitions of createTasks; add it there`)
  }
}

/** Throws a `TypeError` if a callback URL could be given but `createTasks` has no `callbacks`. */
export function mustHaveCallbacks<C>(
  service: TaskService, callback: FindCallback<C> | undefined,
): void {
  if (callback && !service.hasCallbacks) throw noCallbacks()
}
