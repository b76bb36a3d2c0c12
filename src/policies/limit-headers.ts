import { httpError } from '../http/errors.js'
import type { Policy, PolicyPlace } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { failing } from './describe.js'

/** Options of `limitHeaders`. */
export interface LimitHeadersOptions {
  /**
   * Names and values of all fields together, in bytes. Node itself refuses more than 16 KiB, or
   * `maxHeaderSize`. Default: no limit.
   */
  readonly maxHeaderBytes?: number
  /**
   * Number of fields. Each value of a list counts; Node joins some repeated fields into one value.
   * Default: no limit.
   */
  readonly maxFields?: number
}

const KNOWN = { maxHeaderBytes: 0, maxFields: 0 } satisfies Record<keyof LimitHeadersOptions, 0>
const PLACE: PolicyPlace = {
  name: 'limitHeaders', behind: { requestId: 'what is refused here would have no id' },
}

/**
 * Refuses heads that are larger than an API needs: 431 `header_fields_too_large` (RFC 6585 section
 * 5). Node's parser has a limit of its own for the whole server; `attach` answers that with the
 * same code.
 *
 * @example
 * compose(limitHeaders({ maxHeaderBytes: 4096, maxFields: 50 }), handler)
 *
 * @throws {TypeError} Neither limit is set, a limit is not a whole number above 0, or an option is
 * unknown.
 */
export function limitHeaders<C = unknown>(options: LimitHeadersOptions): Policy<C> {
  checkNames('limitHeaders', options, KNOWN)
  const { maxHeaderBytes = Infinity, maxFields = Infinity } = options
  if (maxHeaderBytes === Infinity && maxFields === Infinity) {
    throw new TypeError('limitHeaders: set maxHeaderBytes, maxFields or both')
  }
  for (const max of [maxHeaderBytes, maxFields]) {
    if (max !== Infinity && !(Number.isSafeInteger(max) && max > 0)) {
      throw new TypeError('limitHeaders: limits are whole numbers above 0')
    }
  }
  const policy: Policy<C> = (request, next) => {
    const { headers } = request
    let bytes = 0
    let fields = 0
    for (const name in headers) {
      const value = headers[name]
      if (value === undefined) continue
      for (const text of typeof value === 'string' ? [value] : value) {
        fields++
        // Node gives values as Latin-1, so characters are bytes.
        bytes += name.length + text.length
      }
    }
    if (bytes > maxHeaderBytes || fields > maxFields) throw httpError('header_fields_too_large')
    return next(request)
  }
  return Object.assign(policy, { place: PLACE, describe: failing('header_fields_too_large') })
}
