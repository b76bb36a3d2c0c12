import { HttpError, httpError } from '../http/errors.js'
import type { HttpResponse } from '../http/exchange.js'
import { jsonText } from '../http/respond.js'
import type { Claim } from './idempotency.js'

/** What came of direct work. */
export function direct(result: string): HttpResponse {
  return jsonText(200, result, { vary: 'Prefer' })
}

/** What a retry of directly answered work gets: the same answer, or 409 while there is none. */
export function replayDirect(claim: Claim & { readonly kind: 'sync' }): HttpResponse {
  const { answer } = claim
  if (!answer) throw httpError('idempotent_request_running', { headers: { 'retry-after': '1' } })
  if ('result' in answer) {
    const response = direct(answer.result)
    response.headers['idempotent-replayed'] = 'true'
    return response
  }
  if ('response' in answer) {
    const { status, headers, body } = answer.response
    return { status, headers: { ...headers, 'idempotent-replayed': 'true' }, body }
  }
  const { status, code, headers, ...rest } = answer.failure
  throw new HttpError(status, code, { ...rest, headers: { ...headers, 'idempotent-replayed': 'true' } })
}
