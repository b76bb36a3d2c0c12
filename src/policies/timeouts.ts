import { isPending } from '../runtime/maybe-promise.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { BodySource, HttpResponse, Policy, PolicyPlace } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { addFailures } from '../openapi/responses.js'
import { readOptions, timer, type OptionTable } from '../runtime/options.js'
import { closeUnread } from '../http/body/source.js'
import { setGlobalTimeout, within } from '../runtime/timers.js'
import { AFTER_ID } from './request-id.js'

/** Options of `timeouts`. */
export interface TimeoutsOptions {
  /**
   * Time for a body that is read as a whole, or for each next piece of a streamed one, in
   * milliseconds. Default: no limit.
   *
   * Then the client gets 408 `request_timeout`.
   */
  readonly readMs?: number
  /**
   * Time until the response starts, in milliseconds. Default: no limit.
   *
   * Then `request.signal` aborts and the client gets 503 `run_timeout`.
   *
   * The 503 has `Retry-After: 5` except for POST and PATCH, whose work may be done in part.
   */
  readonly runMs?: number
}

const OPTIONS = { readMs: timer(), runMs: timer() } satisfies OptionTable<TimeoutsOptions>
const PLACE: PolicyPlace = { name: 'timeouts', wholeRun: 'cuts', behind: AFTER_ID }

/**
 * Limits how long a client may take to send a body (408, RFC 9110 section 15.5.9) and a handler to
 * respond (503, or 408 if the body is late). A late response is dropped.
 * @example
 * compose(timeouts({ readMs: 10_000, runMs: 30_000 }), handler)
 * @throws {TypeError} No time is set, one is not whole milliseconds above 0, or an option is
 * unknown.
 */
export function timeouts<C = unknown>(options: TimeoutsOptions): Policy<C> {
  const { readMs, runMs } = readOptions('timeouts', options, OPTIONS)
  if (readMs === undefined && runMs === undefined) {
    throw new TypeError('timeouts: set readMs, runMs or both')
  }
  const policy: Policy<C> = (request, next) => {
    const body = new TimedBody(request.body, readMs)
    if (runMs === undefined) return next(request.with({ body }))
    const controller = new AbortController()
    const signal = (): AbortSignal => AbortSignal.any([request.signal, controller.signal])
    const running = next(request.with({ body, signal }))
    if (!isPending(running)) return running
    return new Promise<HttpResponse | undefined>((resolve, reject) => {
      let late: HttpError | undefined
      const timeout = setGlobalTimeout(() => {
        late = body.waiting ? httpError('request_timeout') : tooLong(request.method)
        controller.abort(late)
        // A handler that rejects with this error at once may add what it has done so far.
        setImmediate(reject, late)
      }, runMs)
      timeout.unref()
      running.then((response) => {
        clearTimeout(timeout)
        if (late !== undefined) closeUnread(response?.body)
        else resolve(response)
      }).catch((error: Error) => {
        clearTimeout(timeout)
        if (late === undefined || readFailure(error).code === late.code) reject(error)
      })
    })
  }
  const describe = runMs === undefined
    ? addFailures('request_timeout')
    : addFailures('request_timeout', 'run_timeout')
  return Object.assign(policy, { place: PLACE, describe })
}

const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

function tooLong(method: string): HttpError {
  return httpError('run_timeout', REPEATABLE.has(method) ? { headers: { 'retry-after': '5' } } : {})
}

class TimedBody implements BodySource {
  waiting = false

  constructor(private readonly body: BodySource, private readonly ms: number | undefined) {}

  get parsed(): BodySource['parsed'] { return this.body.parsed }

  bytes(limit: number): Promise<Uint8Array | undefined> {
    return this.#within(this.body.bytes(limit), this.ms)
  }

  async * stream(isWhole = false): AsyncIterable<Uint8Array> {
    const pieces = this.body.stream(isWhole)[Symbol.asyncIterator]()
    let ms = this.ms
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
    try {
      return await (ms === undefined ? reading : within(reading, ms, () => httpError('request_timeout')))
    } finally {
      this.waiting = false
    }
  }
}
