import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import { httpError } from '../../http/errors.js'
import {
  describe, type Handler, type HttpResponse, type Operation,
} from '../../http/exchange.js'
import { acknowledged, respondAllow } from '../../http/respond.js'
import { claimKey } from '../../idempotency/key.js'
import { retryTask } from '../core/change-task.js'
import { isIn, type Scope, detailsOf } from '../record/details.js'
import { readHead, type RequestHead } from './accept.js'
import { redeliverOperations, retryOperations, withOwner } from './operations.js'
import { findIn, type EndpointSettings } from './settings.js'
import { readOptionalBody, respondAccepted, respondOnce } from './submit.js'

export function createRetry<C>(settings: EndpointSettings<C>): Handler<C> {
  const { core, path, format, maxWaitSeconds } = settings
  return postBelow(settings, '/retry', retryOperations(path, format), async (head, id, of, began) => {
    const { request, owner, caller, prefer: { respondAsync, wait = 0 }, key } = head
    const task = await retryTask(core, id, of, {
      // An operator retries as the application does, so the limit for requests does not count.
      isRequest: of !== 'all',
      key: key === undefined ? undefined : claimKey(request, owner, key),
    })
    if (!task) throw httpError(format.notFound)
    began()
    return respondAccepted(settings, {
      request, owner, caller, isDirect: false, respondAsync,
      waitSeconds: Math.min(wait, maxWaitSeconds),
    }, { task, created: true })
  })
}

export function createRedeliver<C>(settings: EndpointSettings<C>): Handler<C> {
  const { core, path, format } = settings
  const operations = redeliverOperations(path, format)
  return postBelow(settings, '/callback', operations, async ({ request }, id, of, began) => {
    const task = await findFinal(settings, id, of)
    if (!core.settings.callbacks || detailsOf(task).callback === undefined) throw httpError('no_callback')
    if (!await core.redeliver(id, true)) {
      // It was deleted or retried meanwhile, or a delivery is under way.
      await findFinal(settings, id, of)
      throw httpError('callback_pending')
    }
    began()
    const location = path.of(request.mountPath, id)
    const now = await core.read(id)
    const headers = { 'content-type': 'application/json', location, 'content-location': location }
    // The id may have been deleted and used again by another owner.
    const shown = now && isIn(task, now) ? now : task
    return { status: 202, headers, body: format.toText(shown, location) }
  })
}

async function findFinal<C>(
  settings: EndpointSettings<C>, id: string, of: Scope,
): Promise<StoredTask> {
  const task = await findIn(settings, id, of)
  if (!isFinalStatus(task.status)) throw httpError('task_not_final')
  return task
}

/** Creates the handler of a POST below the status path, which does `work` once for each key. */
function postBelow<C>(
  settings: EndpointSettings<C>, below: string, operations: readonly Operation[],
  work: (
    head: RequestHead<C>, id: string, of: Scope, began: () => void,
  ) => Promise<HttpResponse>,
): Handler<C> {
  const handler: Handler<C> = (request) => {
    const id = settings.path.idBelow(request, below)
    if (id === undefined) return undefined
    if (request.method !== 'POST') return respondAllow(request, 'POST, OPTIONS')
    return acknowledged(request, async () => {
      await settings.access?.admit(request)
      const head = readHead(settings, request)
      const of = settings.access ? 'all' : { owner: head.owner }
      // Some clients always send an empty object.
      const { value: body } = await readOptionalBody(request, settings.maxBodyBytes, {})
      if (JSON.stringify(body) !== '{}') {
        throw httpError('invalid_input', {
          details: [{ pointer: '', message: 'must be empty, or an empty object' }],
        })
      }
      return respondOnce(settings, head, {}, async (began) => (
        { response: await work(head, id, of, began) }
      ))
    })
  }
  return describe(handler, withOwner(settings, operations))
}
