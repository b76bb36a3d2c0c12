import { contentOperations, contentPlan } from '../../content/content.js'
import { respond } from '../../content/response.js'
import { blobSource, type ContentSource } from '../../content/source.js'
import { httpError } from '../../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import { parseDigests } from '../../http/fields/digests.js'
import { header, parameter } from '../../openapi/operation.js'
import { fileKey } from '../record/outside.js'
import { belongsTo, type OwnerId } from '../record/ids.js'
import { bodyOf } from '../record/view.js'
import type { EndpointSettings } from './settings.js'
import type { StatusPath } from './status-path.js'

/** Between the path of the status resource and the name of a file. */
const BELOW = '/files'
const ALLOW = 'GET, HEAD, OPTIONS'
const PLAN = contentPlan({ disposition: 'attachment' })

interface FilePlace {
  readonly id: string
  readonly name: string
}

/**
 * Creates the handler of result files: `{status}/files/{name}`. GET and HEAD serve a file of a
 * completed task, whole or in ranges. OPTIONS gets `Allow`, and any other method gets a 405.
 */
export function createFiles<C>(settings: EndpointSettings<C>): Handler<C> {
  const handler = (request: HttpRequest<C>) => {
    const place = placeIn(settings.path, request)
    if (place === undefined) return undefined
    const { method } = request
    if (method === 'OPTIONS') return { status: 200, headers: { allow: ALLOW }, body: '' }
    if (method !== 'GET' && method !== 'HEAD') {
      throw httpError('method_not_allowed', { headers: { allow: ALLOW } })
    }
    return serve(settings, request, place)
  }
  const operations = contentOperations('*/*', {
    notFound: 'file_not_found',
    parameters: [
      parameter('path', 'id'),
      parameter('path', 'name', { description: 'The name of the file, percent-encoded' }),
    ],
    headers: { 'X-Content-Type-Options': header('Always `nosniff`') },
  })
  const path = `${settings.path.template}${BELOW}/{name}`
  return describe(handler, operations.map((each) => ({ ...each, path })))
}

/** Returns what a path names. `undefined` if it is not the path of a file. */
function placeIn(path: StatusPath, request: HttpRequest<unknown>): FilePlace | undefined {
  const end = request.path.lastIndexOf('/')
  const above = request.path.slice(0, end)
  if (!above.endsWith(BELOW)) return undefined
  const id = path.idIn(request.mountPath, above.slice(0, -BELOW.length)) ?? request.params['id']
  const name = decoded(request.path.slice(end + 1))
  return id === undefined ? undefined : { id, name }
}

/** Text that is not valid percent-encoding is the name of no file. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ''
  }
}

async function serve<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, place: FilePlace,
): Promise<HttpResponse> {
  const source = await find(settings, settings.requester(request).owner, place)
  // The same response for every reason, so that nobody learns of tasks of others.
  if (source === undefined) throw httpError('file_not_found')
  const response = await respond(request, source, PLAN)
  response.headers['x-content-type-options'] = 'nosniff'
  return response
}

async function find<C>(
  { service }: EndpointSettings<C>, owner: OwnerId, { id, name }: FilePlace,
): Promise<ContentSource | undefined> {
  const { blobs } = service.settings
  const task = await service.read(id)
  if (!task?.blobs || !blobs || !belongsTo(task, owner)) return undefined
  const { files = [] } = bodyOf(task)
  const at = files.findIndex((file) => file.name === name)
  const [file, blob] = [files[at], task.blobs[at]]
  if (file === undefined || blob === undefined) return undefined
  const digests = parseDigests(file.digest) ?? {}
  const source = await blobSource(blobs, fileKey(id, blob), {
    type: file.type, name, digests,
  })
  // The digest is a strong entity tag, and it is the same for the same bytes of another attempt.
  return source && { ...source, etag: `"${digests['sha-256']}"` }
}
