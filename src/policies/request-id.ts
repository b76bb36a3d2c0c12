import { withHeaders } from '../http/respond.js'
import { getRequestId, setRequestId, withContext } from '../http/request.js'
import type { HttpRequest, Policy, PolicyPlace } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { newId } from '../runtime/random-id.js'
import { isToken } from '../http/fields/reader.js'
import { header as describeHeader } from '../openapi/operation.js'
import { adding } from './describe.js'

/** Options of `requestId`. */
export interface RequestIdOptions {
  /**
   * The header field of the answer.
   * @default 'x-request-id'
   */
  readonly header?: string
  /**
   * If `true`, uses the id in the same field of the request, if it is 1 to 128 harmless characters.
   * For servers behind a proxy that sets it.
   * @default false
   */
  readonly trust?: boolean
}

const KNOWN = { header: 0, trust: 0 } satisfies Record<keyof RequestIdOptions, 0>
const PLACE: PolicyPlace = { name: 'requestId' }
const idField = describeHeader('Names this request in the logs of the server')
const HARMLESS = /^[A-Za-z0-9._~+/=:@-]{1,128}$/

/**
 * Gives each request an id, in `requestIdOf(request)` and in a header field of every answer, errors
 * included.
 *
 * @example
 * compose(requestId(), handler)
 *
 * @throws {TypeError} `header` is no field name, or an option is unknown.
 */
export function requestId<C = unknown>(options: RequestIdOptions = {}): Policy<C> {
  checkNames('requestId', options, KNOWN)
  const { header = 'x-request-id', trust = false } = options
  const name = header.toLowerCase()
  if (!isToken(name)) throw new TypeError('requestId: header must be the name of a field')
  const policy: Policy<C> = (request, next) => {
    const sent = trust ? request.headers[name] : undefined
    const id = typeof sent === 'string' && HARMLESS.test(sent) ? sent : newId()
    setRequestId(request, id)
    return withHeaders(
      next, withContext(request, { requestId: id }), (headers) => { headers[name] = id },
    )
  }
  return Object.assign(policy, { place: PLACE, describe: adding({ [header]: idField }) })
}

/**
 * Returns the id from `requestId`, also for the request that `onError` gets.
 *
 * @example
 * reportErrorsTo((error, { request }) => {
 *   console.error(request && requestIdOf(request), error)
 * })
 */
export function requestIdOf(request: HttpRequest<unknown>): string | undefined {
  return (request.context as { readonly requestId?: string } | null | undefined)?.requestId
    ?? getRequestId(request)
}
