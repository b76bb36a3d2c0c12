import { countedAs, findRequester, type OwnerOption } from '../http/requester.js'
import { countingBody } from '../http/body/counted-body.js'
import { httpError } from '../http/errors.js'
import { acknowledged } from '../http/respond.js'
import type {
  Handler, HttpRequest, HttpResponse, Operation, Policy, PolicyPlace,
} from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { addParameters, addResponseHeaders, addResponses } from '../openapi/operation.js'
import { errorResponses, fields, requestFields } from '../openapi/responses.js'
import type { Store } from '../stores/store.js'
import { buffered } from './buffered.js'
import { parseIdempotencyKey } from './key.js'
import { onceAnswer } from './once-answer.js'
import { readRequest } from './request-body.js'
import { claimKey } from './scope.js'

/** Options of `idempotent`. Times are in milliseconds. */
export interface IdempotentOptions<C = unknown> {
  /** The store of claims and answers. With a shared store, a key counts in every process. */
  readonly store: Store
  /**
   * The caller that a key belongs to. Only the caller of the first request gets its answer again.
   * Required, because each choice is wrong for some servers:
   *
   * - A function returns the caller's id: `caller: ({ context }) => context.user?.id`. `undefined`
   *   is an anonymous client, who is told apart as with `'anyone'`. Anything other than a non-empty
   *   string or `undefined` is a `TypeError`, which is answered with 500 and goes to `onError`.
   * - `'principal'`: the subject that `authenticate` or the host (`context.principal`) has found. A
   *   request with a key and without a principal is answered with 401 `unauthorized`.
   * - `'anyone'`: the subject if there is one, or else the credentials as they were sent: the values
   *   of `Authorization`, `Cookie`, `Proxy-Authorization` and `X-Api-Key`. A retry with other
   *   cookies is another request. Clients without credentials are one caller.
   */
  readonly caller: OwnerOption<C>
  /** Methods for which keys are read. Default: POST, PUT, PATCH and DELETE. */
  readonly methods?: readonly string[]
  /** Time that an answer is kept. Default 24 hours. */
  readonly retentionMs?: number
  /** Time that a retry waits while the first request runs; then it is a 409. Default 30 000. */
  readonly waitMs?: number
  /** Maximum body of a request with a key, in bytes; a larger one is a 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
  /** Maximum body of an answer that is kept for retries, in bytes. Default 1 MiB. */
  readonly maxAnswerBytes?: number
}

const KNOWN = {
  store: 0, caller: 0, methods: 0, retentionMs: 0, waitMs: 0, maxBodyBytes: 0, maxAnswerBytes: 0,
} satisfies Record<keyof IdempotentOptions, 0>

const CALLER = 'a key belongs to the caller, who is not known yet'
const PLACE: PolicyPlace = {
  name: 'idempotent', wholeRun: 'cuts',
  behind: {
    requestId: 'what is refused here would have no id', authenticate: CALLER,
    authorize: 'what was refused once could be answered from memory',
    rateLimit: 'the refusal belongs to the request, not to its key',
    versions: 'a key belongs to one version; put idempotent around the handler of each version',
  },
}

const RESPONSES = errorResponses(
  'invalid_idempotency_key', 'idempotent_request_running', 'body_too_large',
  'idempotency_key_reused', 'store_unavailable', 'too_many_requests', 'overloaded',
)

/**
 * Makes retries with an `Idempotency-Key` safe for any handler
 * (draft-ietf-httpapi-idempotency-key-header). The first request runs once, to its end, even if its
 * client disconnects. A retry gets the same answer with `Idempotent-Replayed: true`, and waits for
 * it while the first request runs. A request without a key passes unchanged. The response header
 * `Idempotency-Key` repeats the key: it tells clients that keys are honoured here.
 *
 * Answers of any status are kept, 422 and 500 included. An answer to a request that had no effect
 * (400, 401, 403, 404, 413, 429, 503 with `Retry-After` and similar ones) is not kept, so a retry
 * runs.
 *
 * The answer is read into memory, up to `maxAnswerBytes`. For a longer one, and for an event
 * stream, a retry gets the status, the header fields and a short body; its work stops if the first
 * client disconnects. If the process dies during the work, a retry within 30 seconds waits, and a
 * later one runs the handler again.
 *
 * `submit` of `taskEndpoints`, and bulk and NDJSON endpoints with `background`, read the key
 * themselves and promise more. They do not need this policy. Without it, other endpoints of longhaul
 * that change something reject a request with a key: 400 `idempotency_not_supported`. Your own
 * handlers decide for themselves.
 *
 * Errors: 400 `invalid_idempotency_key`, 401 `unauthorized` (`caller: 'principal'`), 409
 * `idempotent_request_running`, 413 `body_too_large`, 422 `idempotency_key_reused`. If large bodies of
 * other requests take the memory: 429 `too_many_requests`, 503 `overloaded`.
 *
 * @example
 * const createUser = compose(authenticate({ schemes }), idempotent({ store, caller: 'principal' }), handler)
 *
 * @throws {TypeError} An option is not valid or unknown.
 */
export function idempotent<C = unknown>(options: IdempotentOptions<C>): Policy<C> {
  checkNames('idempotent', options, KNOWN)
  const {
    store, caller, methods = ['POST', 'PUT', 'PATCH', 'DELETE'],
    retentionMs = 86_400_000, waitMs = 30_000, maxBodyBytes = 1_048_576,
    maxAnswerBytes = 1_048_576,
  } = options
  if (typeof store?.create !== 'function') {
    throw new TypeError('idempotent: pass a store, such as that of memory()')
  }
  const requester = findRequester(caller, {
    where: 'idempotent', name: 'caller', question: 'Say to whom an Idempotency-Key belongs.',
    anyone: 'tells callers apart by the credentials that they send: Authorization, Cookie, '
      + 'Proxy-Authorization and X-Api-Key.',
  })
  if (!Array.isArray(methods) || methods.length === 0) {
    throw new TypeError('idempotent: methods must be a list, such as [\'POST\']')
  }
  if (!(retentionMs >= 1000)) throw new TypeError('idempotent: retentionMs must be 1000 or more')
  for (const [name, value] of Object.entries({ waitMs, maxBodyBytes, maxAnswerBytes })) {
    if (!(value >= 0)) throw new TypeError(`idempotent: ${name} must be 0 or more`)
  }
  const counted = new Set(methods)

  const once = async (
    request: HttpRequest<C>, next: Handler<C>, key: string,
  ): Promise<HttpResponse | undefined> => {
    const { owner } = requester(request)
    const { fingerprint, body } = await readRequest(request, maxBodyBytes)
    const own = request.with({
      // The run continues if the client disconnects.
      body, signal: () => new AbortController().signal,
      // The handler must not read the key: it would find the claim of this policy.
      headers: { ...request.headers, 'idempotency-key': undefined },
    })
    const answer = await onceAnswer(request, {
      store, key: claimKey(request, owner, key), fingerprint, waitMs, retentionMs,
      owner: countedAs(request, owner),
      maxBytes: maxAnswerBytes,
    }, async () => {
      const response = await next(own)
      return response && { response: await buffered(response, maxAnswerBytes) }
    })
    if (answer !== undefined && 'kind' in answer) throw httpError('idempotency_key_reused')
    return answer
  }
  const policy: Policy<C> = (request, next) => {
    const field = request.headers['idempotency-key']
    if (field === undefined || !counted.has(request.method)) return next(request)
    const key = parseIdempotencyKey(field) as string
    return acknowledged(request, () => countingBody(request, (counted) => once(counted, next, key)))
  }
  const describe = (operation: Operation): Operation => {
    if (!counted.has(operation.method)) return operation
    const withKey = addParameters(operation, [requestFields.idempotencyKey])
    const headers = fields('Idempotency-Key', 'Idempotent-Replayed')
    return addResponseHeaders(addResponses(withKey, RESPONSES), headers)
  }
  return Object.assign(policy, { place: PLACE, describe })
}
