import { isFinalStatus } from '../../engine/task.js'
import { countedAs } from '../../http/requester.js'
import { httpError } from '../../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type Operation,
} from '../../http/exchange.js'
import { parsePrefer } from '../../http/fields/prefer.js'
import { acknowledged, respondAllow } from '../../http/respond.js'
import { claimKey, parseIdempotencyKey } from '../../idempotency/key.js'
import { retryTask } from '../core/change-task.js'
import { belongsTo, type OwnerId } from '../record/ids.js'
import { toSnapshot, type TaskSnapshot } from '../record/snapshot.js'
import { bodyOf } from '../record/view.js'
import { redeliverOperations, retryOperations } from './operations.js'
import { respondAccepted } from './respond.js'
import { findOwn, type EndpointSettings } from './settings.js'
import { readBody } from './submission.js'
import { respondOnce } from './submit.js'

export function createRetry<C>(settings: EndpointSettings<C>): Handler<C> {
  const { service, format, maxWaitSeconds } = settings
  const retry = async (request: HttpRequest<C>, id: string): Promise<HttpResponse> => {
    const { owner } = settings.requester(request)
    const { respondAsync, wait = 0 } = parsePrefer(request.headers.prefer)
    await requireEmptyBody(settings, request)
    const key = parseIdempotencyKey(request.headers['idempotency-key'])
    return respondOnce(settings, request, {}, async (began) => {
      const task = await retryTask(service.core, id, {
        maySee: (each) => belongsTo(each, owner), isRequest: true,
        ...key !== undefined && { key: claimKey(request, owner, key) },
      })
      if (!task) throw httpError(format.notFound)
      began()
      const retried = { kind: 'task', task: toSnapshot(task), direct: false, replayed: false } as const
      return {
        response: await respondAccepted(settings, {
          request, owner, caller: countedAs(request, owner), direct: false, respondAsync,
          waitSeconds: Math.min(wait, maxWaitSeconds),
        }, retried),
      }
    })
  }
  return postBelow(settings, '/retry', retry, retryOperations(settings.path, format))
}

export function createRedeliver<C>(settings: EndpointSettings<C>): Handler<C> {
  const { service, path, format } = settings
  const redeliver = async (request: HttpRequest<C>, id: string): Promise<HttpResponse> => {
    const { owner } = settings.requester(request)
    await requireEmptyBody(settings, request)
    return respondOnce(settings, request, {}, async (began) => {
      const task = await findFinal(settings, id, owner)
      if (!service.hasCallbacks || bodyOf(task).callback === undefined) {
        throw httpError('no_callback')
      }
      if (!await service.redeliver(id, true)) {
        // It was deleted or retried meanwhile, or a delivery is under way.
        await findFinal(settings, id, owner)
        throw httpError('callback_pending')
      }
      began()
      const location = path.of(request.mountPath, id)
      const now = await service.read(id) ?? task
      const headers = { 'content-type': 'application/json', location, 'content-location': location }
      return { response: { status: 202, headers, body: format.toText(now, location) } }
    })
  }
  return postBelow(settings, '/callback', redeliver, redeliverOperations(path, format))
}

async function findFinal<C>(
  settings: EndpointSettings<C>, id: string, owner: OwnerId,
): Promise<TaskSnapshot> {
  const task = await findOwn(settings, id, owner)
  if (!isFinalStatus(task.state)) throw httpError('task_not_final')
  return task
}

/**
 * Creates the handler of a path below the status path that takes a POST without a body. Other paths
 * are passed on, and any other method gets a 405.
 */
function postBelow<C>(
  settings: EndpointSettings<C>, below: string,
  work: (request: HttpRequest<C>, id: string) => Promise<HttpResponse>,
  operations: readonly Operation[],
): Handler<C> {
  const handler: Handler<C> = (request) => {
    const id = settings.path.idBelow(request, below)
    if (id === undefined) return undefined
    if (request.method === 'POST') return acknowledged(request, () => work(request, id))
    return respondAllow(request, 'POST, OPTIONS')
  }
  return describe(handler, operations)
}

/**
 * Reads the body of a request that says everything by its path. It is empty, or an empty JSON
 * object, which some clients always send.
 *
 * @throws {HttpError} 400 `invalid_input`: the body has properties. 403 `cross_site`: a page of
 * another site has sent an empty body. Also those of a body that is not JSON.
 */
async function requireEmptyBody<C>(
  { maxBodyBytes }: EndpointSettings<C>, request: HttpRequest<C>,
): Promise<void> {
  const { value: body } = await readBody(request, maxBodyBytes, { emptyBody: {} })
  if (JSON.stringify(body) === '{}') return
  throw httpError('invalid_input', {
    details: [{ pointer: '', message: 'must be empty, or an empty object' }],
  })
}
