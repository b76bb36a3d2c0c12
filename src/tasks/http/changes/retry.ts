import { httpError } from '../../../http/errors.js'
import type { Handler, HttpRequest, HttpResponse } from '../../../http/exchange.js'
import { parsePrefer } from '../../../http/fields/prefer.js'
import { parseIdempotencyKey } from '../../../idempotency/key.js'
import { claimKey } from '../../../idempotency/scope.js'
import { belongsTo } from '../../record/ids.js'
import { answerOnce } from '../answer-once.js'
import { postBelow, refuseBody } from './below-status.js'
import { retryOperations } from './operations.js'
import type { EndpointSettings } from '../endpoint-settings.js'
import { respondAccepted } from '../respond-async.js'

/** Creates the handler of POST `{status}/retry`, which runs a failed or cancelled task again. */
export function createRetry<C>(settings: EndpointSettings<C>): Handler<C> {
  const answer = (request: HttpRequest<C>, id: string) => retry(settings, request, id)
  return postBelow(settings, '/retry', answer, retryOperations(settings.path, settings.format))
}

async function retry<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): Promise<HttpResponse> {
  const { service, format, maxWaitSeconds } = settings
  const requester = settings.requester(request)
  const { respondAsync, wait = 0 } = parsePrefer(request.headers.prefer)
  await refuseBody(settings, request)
  const key = parseIdempotencyKey(request.headers['idempotency-key'])
  const waitSeconds = Math.min(wait, maxWaitSeconds)
  const submitter = { request, requester, direct: false, respondAsync, waitSeconds }
  return answerOnce(settings, request, {}, async (began) => {
    const task = await service.retry(id, {
      maySee: (each) => belongsTo(each, requester.owner), isRequest: true,
      ...key !== undefined && { key: claimKey(request, requester.owner, key) },
    })
    if (!task) throw httpError(format.notFound)
    began()
    const retried = { kind: 'task', task, direct: false, replayed: false } as const
    return { response: await respondAccepted(settings, submitter, retried) }
  })
}
