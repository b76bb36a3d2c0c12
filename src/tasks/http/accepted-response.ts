import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../http/exchange.js'
import { pollAfter } from './formats.js'
import type { EndpointSettings } from './settings.js'

/** Returns the 202 of a request that has a task. */
export function acceptedResponse<C>(
  { path, format }: EndpointSettings<C>, { mountPath }: HttpRequest<C>, task: StoredTask,
  { created, preference }: { readonly created: boolean, readonly preference: string | undefined },
): HttpResponse {
  const location = path.location(mountPath, task.id)
  const headers: ResponseHeaders = { location, vary: 'Prefer' }
  if (!created) headers['idempotent-replayed'] = 'true'
  if (preference !== undefined) headers['preference-applied'] = preference
  if (!isFinalStatus(task.status)) headers['retry-after'] = pollAfter(task)
  headers['content-type'] = 'application/json'
  headers['content-location'] = location
  if (format.acceptedHeaders) Object.assign(headers, format.acceptedHeaders(location))
  return { status: 202, headers, body: format.toText(task, location) }
}
