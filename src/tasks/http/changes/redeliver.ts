import { httpError } from '../../../http/errors.js'
import type { Handler, HttpRequest, HttpResponse } from '../../../http/exchange.js'
import type { TaskSnapshot } from '../../record/snapshot.js'
import { belongsTo, type OwnerId } from '../../record/ids.js'
import { isFinalStatus } from '../../../engine/task.js'
import { bodyOf } from '../../record/view.js'
import { answerOnce } from '../answer-once.js'
import { postBelow, refuseBody } from './below-status.js'
import { redeliverOperations } from './operations.js'
import type { EndpointSettings } from '../endpoint-settings.js'

/** Creates the handler of POST `{status}/callback`, which sends the callback of a task again. */
export function createRedeliver<C>(settings: EndpointSettings<C>): Handler<C> {
  const answer = (request: HttpRequest<C>, id: string) => redeliver(settings, request, id)
  return postBelow(
    settings, '/callback', answer, redeliverOperations(settings.path, settings.format),
  )
}

async function redeliver<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): Promise<HttpResponse> {
  const { service, path, format } = settings
  const { owner } = settings.requester(request)
  await refuseBody(settings, request)
  return answerOnce(settings, request, {}, async (began) => {
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

/** Returns the task if it is final. */
async function findFinal<C>(
  { service, format }: EndpointSettings<C>, id: string, owner: OwnerId,
): Promise<TaskSnapshot> {
  const task = await service.read(id)
  if (!task || !belongsTo(task, owner)) throw httpError(format.notFound)
  if (!isFinalStatus(task.state)) throw httpError('task_not_final')
  return task
}
