import { httpError } from '../../src/http/errors.js'
import { cleanMountPath, pathUnder, splitTarget } from '../../src/http/request.js'
import type { HostRequest } from './host.js'

/** The path of a request, and the part of it that belongs to the framework. */
export interface Place {
  /** The whole path, percent-encoded. */
  readonly path: string
  /** `''`, or the query with its `?`. */
  readonly search: string
  readonly mountPath: string
}

const SLASH = 0x2f
/** Frameworks read targets with these characters in several ways. RFC 9112 allows none of them. */
const ODD = /[\0- #\x7f]|\xa0$/
const ABSOLUTE = /^https?:\/\/(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?(?:[/?][^\\]*)?$/i

/**
 * Reads the target that your framework sees now (RFC 9112 section 3.2). A guard of the framework
 * has seen the same path.
 * @throws {HttpError} 400 `bad_request`: the framework may read this target in another way.
 */
export function targetOf({ method, url = '' }: HostRequest): ReturnType<typeof splitTarget> {
  const isPath = url.charCodeAt(0) === SLASH
  if (!ODD.test(url) && (isPath || url === '*' || method === 'CONNECT' || ABSOLUTE.test(url))) {
    return splitTarget(url)
  }
  throw httpError('bad_request', {
    message: 'The target must be a path, or a URL that starts with http: or https: and has a plain host.',
  })
}

/**
 * Finds the path and the mount path of a request of node:http, Express or Connect. The path is what
 * the framework has removed, and `req.url`. Middleware may have rewritten `req.url`, and later
 * guards see only that.
 * @param mountPath - the path that clients see in place of the one that the framework has removed
 */
export function placeOf(req: HostRequest, mountPath: string | undefined): Place {
  const { path: local, search } = targetOf(req)
  let path = local
  let removed = ''
  if (req.originalUrl !== undefined && req.originalUrl !== req.url) {
    const { path: sent } = splitTarget(req.originalUrl)
    removed = req.baseUrl === undefined ? removedFrom(sent, local) : cleanMountPath(req.baseUrl)
    path = pathBelow(removed, local, sent)
  }
  if (mountPath === undefined) return { path, search, mountPath: removed }
  return { path: pathUnder(mountPath, path, removed), search, mountPath }
}

/** Returns the start of the path that a framework has removed without noting it. */
export function removedFrom(sent: string, local: string): string {
  if (sent.endsWith(local)) return cleanMountPath(sent.slice(0, sent.length - local.length))
  return local === '/' ? cleanMountPath(sent) : ''
}

/** Joins both parts of a path. Frameworks add a slash if nothing is left. */
export function pathBelow(removed: string, local: string, sent: string): string {
  return local === '/' && sent === removed ? sent : removed + local
}
