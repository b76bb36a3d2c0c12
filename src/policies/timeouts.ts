import { isPending } from '../runtime/maybe-promise.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { BodySource, HttpResponse, Policy, PolicyPlace } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { checkNames } from '../runtime/option-names.js'
import { closeUnread } from '../http/body/source.js'
import { failing } from './describe.js'

/** Options of `timeouts`. */
export interface TimeoutsOptions {
  /**
   * Time for a body that is read as a whole, or for each next piece of a streamed one, in
   * milliseconds. Then the answer is 408 `request_timeout`. Default: no limit.
   */
  readonly readMs?: number
  /**
   * Time from the request to the head of the answer, in milliseconds. Then `request.signal` aborts
   * and the answer is 503 `run_timeout`. Default: no limit.
   */
  readonly runMs?: number
  /**
   * `Retry-After` of the 503, in seconds. POST and PATCH get none, because a part of their work may
   * be done and the same request would repeat it.
   * @default 5
   */
  readonly retryAfterSeconds?: number
}

const KNOWN = {
  readMs: 0, runMs: 0, retryAfterSeconds: 0,
} satisfies Record<keyof TimeoutsOptions, 0>
const PLACE: PolicyPlace = {
  name: 'timeouts',
  wholeRun: 'cuts',
  behind: { requestId: 'what is refused here would have no id' },
}

/**
 * Limits how long a client may take to send a body (408, RFC 9110 section 15.5.9) and how long a
 * handler may take to answer (503). After the abort the handler is not waited for, and its late
 * answer is dropped. If the handler is late because the body is, the answer is 408.
 *
 * @example
 * compose(timeouts({ readMs: 10_000, runMs: 30_000 }), handler)
 *
 * @throws {TypeError} Neither time is set, a time is not whole milliseconds above 0, or an option
 * is unknown.
 */
export function timeouts<C = unknown>(options: TimeoutsOptions): Policy<C> {
  checkNames('timeouts', options, KNOWN)
  const { readMs, runMs, retryAfterSeconds = 5 } = options
  if (readMs === undefined && runMs === undefined) {
    throw new TypeError('timeouts: set readMs, runMs or both')
  }
  for (const [name, ms] of Object.entries({ readMs, runMs })) {
    if (ms !== undefined && !(Number.isSafeInteger(ms) && ms > 0 && ms < 2 ** 31)) {
      throw new TypeError(`timeouts: ${name} must be a whole number of milliseconds from 1`)
    }
  }
  const policy: Policy<C> = (request, next) => {
    const body = new TimedBody(request.body, readMs)
    if (runMs === undefined) return next(request.with({ body }))
    const controller = new AbortController()
    const signal = (): AbortSignal => AbortSignal.any([request.signal, controller.signal])
    const answer = next(request.with({ body, signal }))
    if (!isPending(answer)) return answer
    return new Promise<HttpResponse | undefined>((resolve, reject) => {
      let late: HttpError | undefined
      const timer = setTimeout(() => {
        late = body.waiting
          ? httpError('request_timeout')
          : tooLong(request.method, retryAfterSeconds)
        controller.abort(late)
        // A handler that rejects with this error at once may add what it has done so far.
        setImmediate(reject, late)
      }, runMs)
      timer.unref()
      answer.then((response) => {
        clearTimeout(timer)
        if (late !== undefined) closeUnread(response?.body)
        else resolve(response)
      }).catch((error: Error) => {
        clearTimeout(timer)
        if (late === undefined || readFailure(error).code === late.code) reject(error)
      })
    })
  }
  return Object.assign(policy, { place: PLACE, describe: runMs === undefined ? failing('request_timeout') : failing('request_timeout', 'run_timeout') })
}

/** Methods whose requests may be repeated (RFC 9110 section 9.2.2). */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

function tooLong(method: string, retryAfterSeconds: number): HttpError {
  return httpError(
    'run_timeout',
    REPEATABLE.has(method) ? { headers: { 'retry-after': String(retryAfterSeconds) } } : {},
  )
}

/** A body whose reader waits for a limited time. */
class TimedBody implements BodySource {
  /** `true` while a reader waits for the client. */
  waiting = false
  readonly #body: BodySource
  readonly #ms: number | undefined

  constructor(body: BodySource, ms: number | undefined) {
    this.#body = body
    this.#ms = ms
  }

  get parsed(): BodySource['parsed'] { return this.#body.parsed }

  bytes(limit: number): Promise<Uint8Array | undefined> {
    return this.#within(this.#body.bytes(limit), this.#ms)
  }

  async * stream(isWhole = false): AsyncIterable<Uint8Array> {
    const pieces = this.#body.stream(isWhole)[Symbol.asyncIterator]()
    let ms = this.#ms
    let over = false
    try {
      for (;;) {
        const began = performance.now()
        const step = await this.#within(pieces.next(), ms)
        if (isWhole && ms !== undefined) ms -= performance.now() - began
        over = step.done === true
        if (step.done) return
        yield step.value
      }
    } finally {
      // Not waited for: a generator that waits for the next piece can't return before it comes.
      if (!over) pieces.return?.().then(undefined, () => {})
    }
  }

  async #within<T>(reading: Promise<T>, ms: number | undefined): Promise<T> {
    this.waiting = true
    let timer: NodeJS.Timeout | undefined
    try {
      if (ms === undefined) return await reading
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => { reject(httpError('request_timeout')) }, ms)
        timer.unref()
      })
      return await Promise.race([reading, late])
    } finally {
      clearTimeout(timer)
      this.waiting = false
    }
  }
}
