import { isParsedLarger } from '../http/body/body.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { BodySource, Policy, PolicyPlace } from '../http/exchange.js'
import { isTooDeep } from '../http/body/json.js'
import { checkNames } from '../runtime/option-names.js'
import { failing } from './describe.js'

/** Options of `limitBody`. */
export interface LimitBodyOptions {
  /** Maximum size of a body in bytes as sent, before content codings are undone. */
  readonly maxBodyBytes: number
}

const KNOWN = { maxBodyBytes: 0 } satisfies Record<keyof LimitBodyOptions, 0>
const PLACE: PolicyPlace = {
  name: 'limitBody',
  wholeRun: 'cuts',
  behind: { requestId: 'what is refused here would have no id' },
}

/**
 * Limits the bodies of all handlers behind it: 413 `body_too_large` (RFC 9110 section 15.5.14). It
 * checks `Content-Length` before anything is read, and then counts what arrives. If the host's own
 * parser has read the body and there is no `Content-Length`, the size as JSON counts.
 *
 * @example
 * compose(limitBody({ maxBodyBytes: 1_048_576 }), handler)
 *
 * @throws {TypeError} `maxBodyBytes` is not a whole number from 0, or an option is unknown.
 */
export function limitBody<C = unknown>(options: LimitBodyOptions): Policy<C> {
  checkNames('limitBody', options, KNOWN)
  const { maxBodyBytes: maxBytes } = options
  if (!(Number.isSafeInteger(maxBytes) && maxBytes >= 0)) {
    throw new TypeError('limitBody: maxBodyBytes must be a whole number from 0 on')
  }
  const policy: Policy<C> = (request, next) => {
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
    const { parsed } = request.body
    if (parsed !== undefined) {
      if (isTooDeep(parsed.value)) throw httpError('nested_too_deep')
      if (isParsedLarger(parsed.value, request.headers, maxBytes)) throw tooLarge(maxBytes)
    }
    return next(request.with({ body: new LimitedBody(request.body, maxBytes) }))
  }
  return Object.assign(policy, { place: PLACE, describe: failing('body_too_large') })
}

/** A body that fails where it becomes too long. */
class LimitedBody implements BodySource {
  readonly #body: BodySource
  readonly #max: number

  constructor(body: BodySource, max: number) {
    this.#body = body
    this.#max = max
  }

  get parsed(): BodySource['parsed'] { return this.#body.parsed }

  bytes(limit: number): Promise<Uint8Array | undefined> {
    if (limit <= this.#max) return this.#body.bytes(limit)
    return this.#body.bytes(this.#max).then((bytes) => {
      if (bytes === undefined) throw tooLarge(this.#max)
      return bytes
    })
  }

  async * stream(isWhole?: boolean): AsyncIterable<Uint8Array> {
    let left = this.#max
    for await (const piece of this.#body.stream(isWhole)) {
      left -= piece.byteLength
      if (left < 0) throw tooLarge(this.#max)
      yield piece
    }
  }
}

function tooLarge(maxBytes: number): HttpError {
  return httpError('body_too_large', { message: `The body is larger than ${maxBytes} bytes.` })
}
