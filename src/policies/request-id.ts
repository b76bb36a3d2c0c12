import { withHeaders } from '../http/respond.js'
import { getRequestId, setRequestId, withContext } from '../http/request.js'
import type { HttpRequest, Operation, Policy, PolicyPlace } from '../http/exchange.js'
import { isToken } from '../http/headers/reader.js'
import { addErrorHeaders, header } from '../openapi/operation.js'
import { flag, readOptions, value, type OptionTable } from '../runtime/options.js'
import { newId } from '../runtime/random-id.js'

/** Options of `requestId`. */
export interface RequestIdOptions {
  /** The header of the response. Default: 'x-request-id'. */
  readonly header?: string
  /**
   * If `true`, uses the same header of the request, for servers behind a proxy that sets it.
   * Default: false.
   *
   * The header must have 1 to 128 characters, each an ASCII letter, a digit or one of `._~+/=:@-`.
   */
  readonly trust?: boolean
}

const OPTIONS = {
  header: value(
    'the name of a header', (name) => typeof name === 'string' && isToken(name),
    { default: 'x-request-id' },
  ),
  trust: flag({ default: false }),
} satisfies OptionTable<RequestIdOptions>

const PLACE: PolicyPlace = { name: 'requestId' }
export const AFTER_ID = { requestId: 'its errors would have no id' }
const HARMLESS = /^[A-Za-z0-9._~+/=:@-]{1,128}$/

/**
 * Gives each request an id, for `requestIdOf(request)` and a header of every response.
 * @example
 * compose(requestId(), handler)
 * @throws {TypeError} `header` is not the name of a header, or an option is unknown.
 */
export function requestId<C = unknown>(options: RequestIdOptions = {}): Policy<C> {
  const { header: shown, trust } = readOptions('requestId', options, OPTIONS)
  const name = shown.toLowerCase()
  const policy: Policy<C> = (request, next) => {
    const sent = trust ? request.headers[name] : undefined
    const id = typeof sent === 'string' && HARMLESS.test(sent) ? sent : newId()
    setRequestId(request, id)
    const inner = withContext(request, { requestId: id })
    return withHeaders(next, inner, (headers) => { headers[name] = id })
  }
  const described = { [shown]: header('Names this request in the logs of the server') }
  return Object.assign(policy, {
    place: PLACE, describe: (operation: Operation) => addErrorHeaders(operation, described),
  })
}

/**
 * Returns the id from `requestId`, even for the request that `onError` gets.
 * @example
 * reportErrorsTo((error, { request }) => {
 *   console.error(request && requestIdOf(request), error)
 * })
 */
export function requestIdOf(request: HttpRequest<unknown>): string | undefined {
  return (request.context as { readonly requestId?: string } | null | undefined)?.requestId
    ?? getRequestId(request)
}
