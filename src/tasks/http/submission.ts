import { readJsonBody } from '../../http/body/body.js'
import { isJsonObject } from '../../http/body/json.js'
import { isCrossSite } from '../../http/cross-site.js'
import { countedAs } from '../../http/requester.js'
import { HttpError, httpError, isHttpError } from '../../http/errors.js'
import type { HttpRequest } from '../../http/exchange.js'
import { parsePrefer } from '../../http/fields/prefer.js'
import { claimKey, fingerprintOf, parseIdempotencyKey } from '../../idempotency/key.js'
import { Json } from '../../runtime/json.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Submitted } from '../core/accept-task.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { validateInput } from '../run/run.js'
import type { EndpointSettings, FindCallback, FindStart } from './settings.js'
import { parseStart, type FindStartTime } from './start-at.js'
import type { ReadWork, Selected, SubmitTransaction } from './submit-options.js'

/** Work whose input was read. */
export interface SelectedWork extends ReadWork, Selected {
  readonly json?: Json
}

/** A way to submit work: an endpoint, before a request. */
export interface SubmissionSource<C> {
  /** Reads the body and selects the work. Called once the header of the request is valid. */
  readonly read: (request: HttpRequest<C>) => MaybePromise<SelectedWork>
  readonly callback: FindCallback<C> | undefined
  readonly startAt: FindStart<C> | undefined
  /**
   * `prefer`: the client's `Prefer` decides. `always`: every response is a 202 without a wait.
   * `async`: every response is a 202, after a wait if the client asks for it.
   */
  readonly mode: 'prefer' | 'always' | 'async'
  readonly transaction?: SubmitTransaction<C> | undefined
}

/** A request without its input, and the response that it asks for. */
export interface Submitter<C> {
  readonly request: HttpRequest<C>
  readonly owner: string | undefined
  /** Whom limits count the request for. */
  readonly caller: string
  /** `true` if the response is the result, not a 202. */
  readonly direct: boolean
  /** `true` if the client asked for a 202 by `respond-async`. */
  readonly respondAsync: boolean
  /** Seconds to wait for the end of the task before a 202. */
  readonly waitSeconds: number
}

export interface Submission<C> {
  readonly submitter: Submitter<C>
  readonly definition: AnyTaskDefinition
  readonly input: unknown
  readonly json: Json | undefined
  readonly idempotency: Submitted['idempotency']
  readonly callbackUrl: string | undefined
  /** Returns the start that the client asks for. Checks it, so it is called when the task is accepted. */
  readonly start: FindStartTime | undefined
  /** Discards the input, because no task will use it. Never rejects. */
  readonly discard: () => Promise<void>
  /**
   * `true` if the same endpoint also works for synchronous requests without a task (`respondOnce`).
   * A request with a key then holds the claim of the key while it creates the task.
   */
  readonly claimsKey: boolean
  readonly transaction: SubmitTransaction<C> | undefined
}

/** Reads and validates a submission. Throws the error that the client is to see. */
export async function readSubmission<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>,
  { read, callback, startAt, mode, transaction }: SubmissionSource<C>,
): Promise<Submission<C>> {
  const { service, maxWaitSeconds } = settings
  const { owner } = settings.requester(request)
  const { respondAsync, wait = 0 } = parsePrefer(request.headers.prefer)
  const key = parseIdempotencyKey(request.headers['idempotency-key'])
  const work = await read(request)
  const { definition, input, json, body, pointer = '' } = work
  const discard = async (): Promise<void> => {
    try {
      await work.discard?.()
    } catch {
      // It expires.
    }
  }
  try {
    if (definition.input || definition.check) {
      await validateInput(definition, input).catch((error: unknown) => { throw below(pointer, error) })
    }
    const members = isJsonObject(body) ? body : {}
    const url = callback?.(members, request)
    const callbackUrl = url === undefined ? undefined : await service.checkCallback(url, owner)
    const time = startAt?.(members, request)
    const start = time === undefined ? undefined : parseStart(time, body)
    // RFC 7240 section 2: a preference is no demand. There is no result before the start.
    const direct = mode === 'prefer' && !respondAsync && start === undefined
    if (direct && callbackUrl !== undefined) throw httpError('callback_needs_async')
    const waitSeconds = mode === 'always' ? 0 : Math.min(wait, maxWaitSeconds)
    const caller = countedAs(request, owner)
    return {
      submitter: { request, owner, caller, direct, respondAsync, waitSeconds },
      definition, input, json, callbackUrl, start, discard, transaction,
      claimsKey: mode === 'async',
      idempotency: key === undefined ? undefined : {
        key: claimKey(request, owner, key), fingerprint: requestFingerprint(request, body),
        isDirect: direct,
      },
    }
  } catch (error) {
    await discard()
    throw error
  }
}

/** Reads a JSON body. A request without a body gets `emptyBody`, if that is given. */
export function readBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, options: { readonly emptyBody?: unknown },
): MaybePromise<Json> {
  return 'emptyBody' in options
    ? readOptionalBody(request, maxBodyBytes, options.emptyBody)
    : readJsonBody(request, { maxBodyBytes })
}

async function readOptionalBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, emptyBody: unknown,
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

/**
 * Returns the fingerprint of a request. The query counts too, because it may change the meaning.
 */
export function requestFingerprint(request: HttpRequest<unknown>, body: unknown): string {
  return fingerprintOf([request.search ?? request.query.toString(), body])
}

function below(pointer: string, error: unknown): unknown {
  if (pointer === '' || !isHttpError(error) || !error.details) return error
  const { status, code, message, headers, cause } = error
  const details = error.details.map(
    (detail) => ({ ...detail, pointer: pointer + detail.pointer })
  )
  return new HttpError(status, code, { message, details, headers, cause })
}
