import { httpError } from '../../../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../../http/exchange.js'
import type { EndpointSettings } from '../endpoint-settings.js'
import { TASK_STATUSES } from '../formats.js'
import { listOperations } from './operations.js'
import { mustTakeJson, respondPage } from './page.js'
import { readListQuery, type QueryRules } from './query.js'

/**
 * Creates the handler of a requester's own list.
 *
 * @throws {TypeError} `createTasks` has no index.
 */
export function createOwnList<C>(
  settings: EndpointSettings<C>, also: readonly string[],
): Handler<C> {
  const { service, format } = settings
  const rules: QueryRules = {
    statuses: format.statuses ?? TASK_STATUSES, also: new Set(also), byOwner: false,
    hasTask: (name) => service.definition(name) !== undefined,
  }
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => {
    const { method } = request
    return method === 'GET' || method === 'HEAD' ? answer(settings, request, rules) : undefined
  }
  return describe(handler, listOperations(format, rules))
}

async function answer<C>(
  { service, format, path, requester }: EndpointSettings<C>, request: HttpRequest<C>,
  rules: QueryRules,
): Promise<HttpResponse> {
  const { owner } = requester(request)
  // All anonymous clients share the tasks without an owner, and a list would give away their ids.
  if (owner === undefined) throw httpError('unauthorized')
  mustTakeJson(request)
  const { filter: asked, cursor } = readListQuery(request, rules)
  const filter = { ...asked, of: { owner } }
  const page = await service.list(filter, cursor)
  const { mountPath } = request
  return respondPage(request, page, (task) => (
    format.toText(task, path.of(mountPath, task.id))
  ))
}
