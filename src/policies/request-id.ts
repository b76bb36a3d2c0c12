import { withHeaders } from '../http/response-headers.js'
import { getRequestId, setRequestId, withContext } from '../http/derived-request.js'
import type { HttpRequest, Policy, PolicyPlace } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { newId } from '../runtime/random-id.js'
import { isToken } from '../http/fields/reader.js'
import { header as describeHeader } from '../openapi/operation.js'
import { adding } from './describe.js'

/** Where the id of a request comes from and goes to. */
export interface RequestIdOptions {
  /** The field of the answer. Default `x-request-id`. */
  readonly header?: string
  /**
   * Takes over the id that the same field of the request names, if it is 1 to 128 harmless
   * characters: for servers behind a proxy that sets it. Default `false`.
   */
  readonly trust?: boolean
}

const KNOWN = { header: 0, trust: 0 } satisfies Record<keyof RequestIdOptions, 0>
const PLACE: PolicyPlace = { name: 'requestId' }
const idField = describeHeader('Names this request in the logs of the server')
const HARMLESS = /^[A-Za-z0-9._~+/=:@-]{1,128}$/

/**
 * Gives each request an id, in `requestIdOf(request)` and in a field of every answer, failures too.
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
    return withHeaders(next, withContext(request, { requestId: id }), (headers) => { headers[name] = id })
  }
  return Object.assign(policy, { place: PLACE, describe: adding({ [header]: idField }) })
}

/** The id that `requestId` has given, also for the request that `onError` is told of. */
export function requestIdOf(request: HttpRequest<unknown>): string | undefined {
  return (request.context as { readonly requestId?: string } | null | undefined)?.requestId ?? getRequestId(request)
}
