import { readJsonBody } from '../../http/body/body.js'
import { isJsonObject } from '../../http/body/json.js'
import { isCrossSite, type Requester } from '../../http/requester.js'
import { HttpError, httpError, isHttpError } from '../../http/errors.js'
import type { HttpRequest } from '../../http/exchange.js'
import { parsePrefer } from '../../http/fields/prefer.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import { Json } from '../../runtime/json.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { TaskService } from '../core/task-service.js'
import { validateInput } from '../run/run.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { parseStart, type RequestedStart } from './start-at.js'
import type {
  FindCallback, FindStart, ReadWork, Selected, SubmitTransaction,
} from './submit-endpoint-options.js'

/** Work whose input was read. */
export interface SelectedWork extends ReadWork, Selected {
  /** The JSON of `input`, if its text is there. */
  readonly json?: Json
}

/** A submission before its body is read. */
export interface SubmissionSource<C> {
  /** Reads the body and selects the work. Called once the head of the request is valid. */
  readonly read: (request: HttpRequest<C>) => MaybePromise<SelectedWork>
  readonly callback: FindCallback<C> | undefined
  readonly startAt: FindStart<C> | undefined
  /**
   * `prefer`: the client's `Prefer` decides. `always`: every answer is a 202 without a wait.
   * `async`: every answer is a 202, after a wait if the client asks for it.
   */
  readonly mode: 'prefer' | 'always' | 'async'
  readonly transaction: SubmitTransaction<C> | undefined
}

/** A request that was read and validated. */
export interface Submission<C> extends Submitter<C> {
  readonly definition: AnyTaskDefinition
  readonly input: unknown
  /** The JSON of `input`, if its text is there. */
  readonly json: Json | undefined
  readonly body: unknown
  readonly idempotencyKey: string | undefined
  readonly callbackUrl: string | undefined
  /** The start that the client asks for. It is checked when the task is accepted. */
  readonly start: RequestedStart | undefined
  readonly discard?: (() => unknown) | undefined
  /**
   * `true` if the same endpoint also works for synchronous requests without a task (`answerOnce`).
   * A request with a key then holds the claim of the key while it creates the task.
   */
  readonly claimsKey: boolean
  /** Submits the task in a transaction of the host. */
  readonly transaction: SubmitTransaction<C> | undefined
}

/** A request without its input, and the answer that it asks for. */
export interface Submitter<C> {
  readonly request: HttpRequest<C>
  readonly requester: Requester
  /** `true` if the answer is the result, not a 202. */
  readonly direct: boolean
  /** `true` if the client asked for 202 by `respond-async`. */
  readonly respondAsync: boolean
  /** Seconds to wait for the end of the task before a 202. */
  readonly waitSeconds: number
}

/** Reads and validates a submission. Throws the error that the client is to see. */
export async function readSubmission<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>,
  { read, callback, startAt, mode, transaction }: SubmissionSource<C>,
): Promise<Submission<C>> {
  const { service } = settings
  const requester = settings.requester(request)
  const { respondAsync, wait = 0 } = parsePrefer(request.headers.prefer)
  const idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'])
  const work = await read(request)
  const { definition, input, json, body, discard, pointer = '' } = work
  try {
    service.mustHave(definition)
    if (definition.input || definition.check) await validateAt(pointer, definition, input)
    const callbackUrl = callback
      && await readCallbackUrl(service, callback, body, request, requester.owner)
    const start = startAt && readStart(startAt, body, request)
    // RFC 7240 section 2: a preference is no demand. There is no result before the start.
    const direct = mode === 'prefer' && !respondAsync && start === undefined
    if (direct && callbackUrl !== undefined) throw httpError('callback_needs_async')
    return {
      request, requester, definition, input, json, body, idempotencyKey, callbackUrl, start, discard,
      direct, respondAsync, transaction, claimsKey: mode === 'async',
      waitSeconds: mode === 'always' ? 0 : Math.min(wait, settings.maxWaitSeconds),
    }
  } catch (error) {
    await discardInput(work)
    throw error
  }
}

/** Discards the input of a submission that no task will use. Never rejects. */
export async function discardInput(
  { discard }: { readonly discard?: (() => unknown) | undefined },
): Promise<void> {
  try {
    await discard?.()
  } catch {
    // It expires.
  }
}

/** Reads a JSON body. A request without a body gets `emptyBody`, if that is given. */
export function readBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, options: { readonly emptyBody?: unknown },
): MaybePromise<Json> {
  if (!('emptyBody' in options)) return readJsonBody(request, { maxBodyBytes })
  return readBodyOr(options.emptyBody, request, maxBodyBytes)
}

async function readBodyOr(
  emptyBody: unknown, request: HttpRequest<unknown>, maxBodyBytes: number,
): Promise<Json> {
  try {
    return await readJsonBody(request, { maxBodyBytes })
  } catch (error) {
    if (!isHttpError(error) || error.code !== 'missing_body') throw error
    // A Content-Type of JSON proves that the browser has asked this server beforehand.
    if (request.headers['content-type'] === undefined && isCrossSite(request)) {
      throw httpError('cross_site')
    }
    return Json.of(emptyBody)
  }
}

/** Validates input. Makes the pointers of its errors begin with `pointer`. */
async function validateAt(
  pointer: string, definition: AnyTaskDefinition, input: unknown,
): Promise<void> {
  try {
    await validateInput(definition, input)
  } catch (error) {
    if (pointer === '' || !isHttpError(error) || !error.details) throw error
    const { status, code, message, headers, cause } = error
    const details = error.details.map(
      (detail) => ({ ...detail, pointer: pointer + detail.pointer })
    )
    throw new HttpError(status, code, { message, details, headers, cause })
  }
}

async function readCallbackUrl<C>(
  service: TaskService, callback: FindCallback<C>, body: unknown, request: HttpRequest<C>,
  owner: string | undefined,
): Promise<string | undefined> {
  const url = callback(isJsonObject(body) ? body : {}, request)
  return url === undefined ? undefined : service.checkCallback(url, owner)
}

function readStart<C>(
  startAt: FindStart<C>, body: unknown, request: HttpRequest<C>,
): RequestedStart | undefined {
  const value = startAt(isJsonObject(body) ? body : {}, request)
  return value === undefined ? undefined : parseStart(value, body)
}
