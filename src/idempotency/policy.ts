import { isParsedLarger } from '../http/body/body.js'
import { CountedBody, countingBody } from '../http/body/counted-body.js'
import { isTooDeep } from '../http/body/json.js'
import { countedAs, findRequester, type OwnerOption } from '../http/requester.js'
import { httpError, type HttpError } from '../http/errors.js'
import type {
  BodySource, Handler, HttpRequest, HttpResponse, Operation, Policy, PolicyPlace,
} from '../http/exchange.js'
import { parseMediaType } from '../http/headers/accept.js'
import { acknowledged } from '../http/respond.js'
import { addParameters, addResponseHeaders, addResponses } from '../openapi/operation.js'
import { errorResponses, responseHeaders, headerParameters } from '../openapi/responses.js'
import { bytes, duration, hasMethod, readOptions, value, type OptionTable } from '../runtime/options.js'
import type { Store } from '../stores/store.js'
import { claimKey, digestOf, fingerprintOf, parseIdempotencyKey } from './key.js'
import { buffered, oncePerKey } from './once.js'

/** Options of `idempotent`. Times are in milliseconds. */
export interface IdempotentOptions<C = unknown> {
  /** The store of keys and responses. With a shared store, a key counts in every process. */
  readonly store: Store
  /**
   * The caller that a key belongs to, who alone gets the response again: a function, `'principal'`
   * or `'anyone'`.
   *
   * Required, because each choice is wrong for some servers:
   *
   * - A function returns the caller's id: `caller: ({ context }) => context.user?.id`. `undefined`
   *   counts as `'anyone'`.
   * - `'principal'`: the subject that `authenticate` or your framework (`context.principal`) has
   *   found. A request with a key and without a principal gets a 401 `unauthorized`.
   * - `'anyone'`: the subject if there is one, or else the credentials as they were sent.
   *
   * The credentials are `Authorization`, `Cookie`, `Proxy-Authorization` and `X-Api-Key`. A retry
   * with other cookies is another request. Clients without credentials are one caller. A function
   * that returns anything but a non-empty string or `undefined` causes a `TypeError`: the client
   * gets a 500.
   */
  readonly caller: OwnerOption<C>
  /** Methods for which keys are read. Default: POST, PUT, PATCH and DELETE. */
  readonly methods?: readonly string[]
  /** Time that a response is kept. Default 24 hours. */
  readonly retentionMs?: number
  /**
   * Maximum time that a retry waits for the first request. Default 30 000.
   *
   * Then it gets a 409.
   */
  readonly waitMs?: number
  /**
   * Maximum body of a request with a key, in bytes. Default 1 MiB.
   *
   * A larger one gets a 413.
   */
  readonly maxBodyBytes?: number
  /** Maximum body of a response that is kept for retries, in bytes. Default 1 MiB. */
  readonly maxResponseBytes?: number
}

const isStore = hasMethod('create')
const isList = (given: unknown): boolean => Array.isArray(given) && given.length > 0

const OPTIONS = {
  store: value('a store, such as that of memory()', isStore, { required: true }),
  caller: value(),
  methods: value("a list, such as ['POST']", isList, {
    default: ['POST', 'PUT', 'PATCH', 'DELETE'] as readonly string[],
  }),
  retentionMs: duration({ min: 1000, default: 86_400_000 }),
  waitMs: duration({ default: 30_000 }),
  maxBodyBytes: bytes({ default: 2 ** 20 }),
  maxResponseBytes: bytes({ default: 2 ** 20 }),
} satisfies OptionTable<IdempotentOptions>

const CALLER = 'a key belongs to the caller, who is not known yet'
const PLACE: PolicyPlace = {
  name: 'idempotent', wholeRun: 'cuts',
  behind: {
    requestId: 'what is rejected here would have no id', authenticate: CALLER,
    authorize: 'what was rejected once could get a stored response',
    rateLimit: 'the rejection belongs to the request, not to its key',
    versions: 'a key belongs to one version; put idempotent around the handler of each version',
  },
}

const RESPONSES = errorResponses(
  'invalid_idempotency_key', 'nested_too_deep', 'idempotent_request_running', 'body_too_large',
  'idempotency_key_reused', 'store_unavailable', 'too_many_requests', 'overloaded',
)

/**
 * Makes retries with an `Idempotency-Key` safe for any handler
 * (draft-ietf-httpapi-idempotency-key-header). The first request runs once, to its end, even if its
 * client disconnects. A retry waits for the same response, and gets it with `Idempotent-Replayed: true`.
 * The response header `Idempotency-Key` repeats the key. A request without a key passes unchanged.
 *
 * Responses of any status are kept, except those of requests without an effect: 400, 401, 403, 404, 413,
 * 429, 503 with `Retry-After` and similar ones.
 *
 * The response is read into memory, up to `maxResponseBytes`. For a longer one, and for an event stream,
 * a retry gets the status, the headers and a short body; its work stops if the first client disconnects.
 * If the process dies during the work, a retry within 30 seconds waits, and a later one runs the handler
 * again.
 *
 * `submit` of `taskEndpoints`, and bulk and NDJSON endpoints with `background`, do not need this policy.
 * Without it, other endpoints of longhaul that change something reject a request with a key: 400
 * `idempotency_not_supported`.
 *
 * Errors: 400 `invalid_idempotency_key`, 400 `nested_too_deep` (a body that your framework has
 * parsed), 401 `unauthorized` (`caller: 'principal'`), 409 `idempotent_request_running`, 413
 * `body_too_large`, 422 `idempotency_key_reused`. If large bodies of other requests take the memory:
 * 429 `too_many_requests`, 503 `overloaded`.
 *
 * @example
 * const createUser = compose(authenticate({ schemes }), idempotent({ store, caller: 'principal' }), handler)
 *
 * @throws {TypeError} An option is not valid or unknown.
 */
export function idempotent<C = unknown>(options: IdempotentOptions<C>): Policy<C> {
  const {
    store, caller, methods, retentionMs, waitMs, maxBodyBytes, maxResponseBytes,
  } = readOptions('idempotent', options, OPTIONS)
  const requester = findRequester(caller, {
    where: 'idempotent', name: 'caller', question: 'Say to whom an Idempotency-Key belongs.',
    anyone: 'tells callers apart by the credentials that they send: Authorization, Cookie, '
      + 'Proxy-Authorization and X-Api-Key.',
    anonymous: true,
  })
  const counted = new Set(methods)

  const once = async (
    request: HttpRequest<C>, next: Handler<C>, key: string,
  ): Promise<HttpResponse | undefined> => {
    const { owner } = requester(request)
    const { fingerprint, body } = await readRequest(request, maxBodyBytes)
    const own = request.with({
      body, signal: () => new AbortController().signal,
      // With the key, the handler would find the claim of this policy.
      headers: { ...request.headers, 'idempotency-key': undefined },
    })
    return oncePerKey(request, {
      store, key: claimKey(request, owner, key), fingerprint, waitMs, retentionMs,
      caller: countedAs(request, owner),
      maxBytes: maxResponseBytes,
    }, async () => {
      const response = await next(own)
      return response && { response: await buffered(response, maxResponseBytes) }
    })
  }
  const policy: Policy<C> = (request, next) => {
    const header = request.headers['idempotency-key']
    if (header === undefined || !counted.has(request.method)) return next(request)
    const key = parseIdempotencyKey(header) as string
    return acknowledged(request, () => countingBody(request, (counted) => once(counted, next, key)))
  }
  const describe = (operation: Operation): Operation => {
    if (!counted.has(operation.method)) return operation
    const withKey = addParameters(operation, [headerParameters.idempotencyKey])
    const headers = responseHeaders('Idempotency-Key', 'Idempotent-Replayed')
    return addResponseHeaders(addResponses(withKey, RESPONSES), headers)
  }
  return Object.assign(policy, { place: PLACE, describe })
}

/** Returns the fingerprint of query, media type and body (JSON by value, else bytes). */
async function readRequest(
  request: HttpRequest<unknown>, maxBytes: number,
): Promise<{ readonly fingerprint: string, readonly body: BodySource }> {
  const { body, headers, search = request.query.toString() } = request
  const header = headers['content-type']
  const type = typeof header === 'string' ? parseMediaType(header)?.type : undefined
  const about = [search, type ?? null]
  if (body.parsed) {
    const { value } = body.parsed
    if (isTooDeep(value)) throw httpError('nested_too_deep')
    if (isParsedLarger(value, headers, maxBytes)) throw tooLarge(maxBytes)
    const isRaw = typeof value === 'string' || value instanceof Uint8Array
    return { fingerprint: fingerprintOf([...about, isRaw ? digestOf(value) : { json: value }]), body }
  }
  const bytes = await body.bytes(maxBytes)
  if (bytes === undefined) throw tooLarge(maxBytes)
  const counted = body instanceof CountedBody ? body : undefined
  await counted?.waitToParse(bytes.byteLength, request)
  const isJson = type === undefined || type === 'application/json' || type.endsWith('+json')
  const isPlain = (headers['content-encoding'] ?? 'identity') === 'identity'
  const fingerprint = isJson && isPlain && jsonFingerprint(about, bytes)
    || fingerprintOf([...about, digestOf(bytes)])
  counted?.releaseJson()
  return { fingerprint, body: counted ?? bodyOf(bytes) }
}

function tooLarge(maxBytes: number): HttpError {
  const message = `With an Idempotency-Key the body may have ${maxBytes} bytes at the most.`
  return httpError('body_too_large', { message })
}

/** Returns `undefined` if the bytes are not JSON, or nested too deeply. The handler reports that. */
function jsonFingerprint(about: readonly unknown[], bytes: Uint8Array): string | undefined {
  try {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
    return fingerprintOf([...about, { json: JSON.parse(text) as unknown }])
  } catch {
    return undefined
  }
}

function bodyOf(bytes: Uint8Array): BodySource {
  return {
    parsed: undefined,
    bytes: async (limit) => bytes.byteLength > limit ? undefined : bytes,
    async* stream() {
      if (bytes.byteLength > 0) yield bytes
    },
  }
}
