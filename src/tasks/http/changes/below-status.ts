import { httpError } from '../../../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type Operation,
} from '../../../http/exchange.js'
import { acknowledged } from '../../../http/respond.js'
import type { EndpointSettings } from '../endpoint-settings.js'
import { readBody } from '../submission.js'

/** The methods of a resource that only takes POST, as `Allow` lists them. */
const ALLOW = 'POST, OPTIONS'

/**
 * Returns the id of the task in a path below its status path, such as `{status}/items` with `below`
 * `/items`. `undefined` if it is not such a path.
 */
export function idBelow<C>(
  { path }: EndpointSettings<C>, { mountPath, path: requested, params }: HttpRequest<C>,
  below: string,
): string | undefined {
  if (!requested.endsWith(below)) return undefined
  return path.idIn(mountPath, requested.slice(0, -below.length)) ?? params['id']
}

/**
 * Creates the handler of a path below the status path that takes a POST without a body. Other paths
 * are passed on, and any other method is a 405.
 */
export function postBelow<C>(
  settings: EndpointSettings<C>, below: string,
  answer: (request: HttpRequest<C>, id: string) => Promise<HttpResponse>,
  operations: readonly Operation[],
): Handler<C> {
  const handler = (request: HttpRequest<C>) => {
    const id = idBelow(settings, request, below)
    if (id === undefined) return undefined
    if (request.method === 'POST') return acknowledged(request, () => answer(request, id))
    if (request.method === 'OPTIONS') return { status: 200, headers: { allow: ALLOW }, body: '' }
    throw httpError('method_not_allowed', { headers: { allow: ALLOW } })
  }
  return describe(handler, operations)
}

/**
 * Reads the body of a request that says everything by its path. It is empty, or an empty JSON
 * object, which some clients always send.
 *
 * @throws {HttpError} 400 `invalid_input`: the body has members. 403 `cross_site`: a page of
 * another site has sent an empty body. Also those of a body that is not JSON.
 */
export async function refuseBody<C>(
  { maxBodyBytes }: EndpointSettings<C>, request: HttpRequest<C>,
): Promise<void> {
  const { value: body } = await readBody(request, maxBodyBytes, { emptyBody: {} })
  if (JSON.stringify(body) === '{}') return
  throw httpError('invalid_input', {
    details: [{ pointer: '', message: 'must be empty, or an empty object' }],
  })
}
