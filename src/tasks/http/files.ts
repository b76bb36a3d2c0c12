import { contentOperations, contentPlan } from '../../content/content.js'
import { respond } from '../../content/response.js'
import { blobSource } from '../../content/source.js'
import { httpError } from '../../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../../http/exchange.js'
import { respondAllow } from '../../http/respond.js'
import { parseDigests } from '../../http/headers/digests.js'
import { parameter } from '../../openapi/operation.js'
import { isIn, type Details } from '../record/details.js'
import { isFinalStatus } from '../../engine/task.js'
import { fileKey } from '../record/outside.js'
import { withOwner } from './operations.js'
import { scopeOf, type EndpointSettings } from './settings.js'

const BELOW = '/files/'
const ALLOW = 'GET, HEAD, OPTIONS'
const PLAN = contentPlan({ disposition: 'attachment' })

export function createFiles<C>(settings: EndpointSettings<C>): Handler<C> {
  const { path, core: { settings: { blobs } } } = settings
  const handler = (request: HttpRequest<C>) => {
    const at = request.path.lastIndexOf(BELOW)
    const name = request.path.slice(at + BELOW.length)
    const id = at < 0 || name.includes('/')
      ? undefined : path.idBelow(request, request.path.slice(at))
    if (id === undefined) return undefined
    const { method } = request
    if (method !== 'GET' && method !== 'HEAD') return respondAllow(request, ALLOW)
    return serve(settings, request, id, decoded(name))
  }
  const operations = contentOperations(undefined, {
    notFound: 'file_not_found',
    dated: false,
    redirects: blobs?.link !== undefined,
    parameters: [
      parameter('path', 'id'),
      parameter('path', 'name', { description: 'The name of the file, percent-encoded' }),
    ],
  })
  return describe(handler, withOwner(settings, operations.map((each) => (
    { ...each, path: `${path.template}${BELOW}{name}` }
  ))))
}

/** Returns `''`, the name of no file, if the percent-encoding is not valid. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ''
  }
}

async function serve<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string, name: string,
): Promise<HttpResponse> {
  const { core, core: { settings: { blobs } } } = settings
  const of = await scopeOf(settings, request)
  const task = await core.read(id)
  const { files = [], blobs: names = [] }: Details = task && isIn(of, task) && isFinalStatus(task.status) ? task.details : {}
  const at = files.findIndex((file) => file.name === name)
  const [file, blob] = [files[at], names[at]]
  const digests = file ? parseDigests(file.digest) ?? {} : {}
  const source = file && blob !== undefined && blobs
    && await blobSource(blobs, fileKey(id, blob), { type: file.type, name, digests })
  // The same response for every reason, so that nobody learns of tasks of others.
  if (!source) throw httpError('file_not_found')
  // With a link, the responses there have the entity tag of the blob.
  const etag = source.link ? source.etag : `"${digests['sha-256']}"`
  const response = await respond(request, { ...source, etag }, PLAN)
  response.headers['x-content-type-options'] = 'nosniff'
  return response
}
