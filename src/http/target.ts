const SLASH = 0x2f

/**
 * The request target in origin form (RFC 9112 section 3.2): a proxy's absolute form loses its
 * origin.
 */
function originForm(target: string): string {
  if (target.charCodeAt(0) === SLASH) return target
  const scheme = target.indexOf('://')
  if (scheme < 0) return target
  const rest = target.slice(scheme + 3)
  const start = rest.search(/[/?]/)
  if (start < 0) return '/'
  return rest.charCodeAt(start) === SLASH ? rest.slice(start) : `/${rest.slice(start)}`
}

/**
 * Path and query of a request target, still percent-encoded; the query is `''` or starts with `?`.
 * Takes origin form and absolute form; `*` and `host:port` come back as the path. Cuts by hand,
 * since `new URL` costs twenty times as much and every request passes here.
 */
export function splitTarget(target: string): { path: string; search: string } {
  const origin = originForm(target)
  const mark = origin.indexOf('?')
  return mark < 0 ? { path: origin, search: '' } : { path: origin.slice(0, mark), search: origin.slice(mark) }
}

/**
 * A mount path as `HttpRequest.mountPath` wants it: `''`, or `/…` without a slash at the end.
 * Throws a TypeError when it does not start with `/`.
 */
export function cleanMountPath(mountPath: string): string {
  let end = mountPath.length
  while (end > 0 && mountPath.charCodeAt(end - 1) === SLASH) end--
  const clean = mountPath.slice(0, end)
  if (clean !== '' && clean.charCodeAt(0) !== SLASH) {
    throw new TypeError(`mountPath has to start with "/", and "${mountPath}" does not: write "/${mountPath}"`)
  }
  return clean
}

/** Whether `path` is `mountPath` or lies below it. */
function isUnder(path: string, mountPath: string): boolean {
  return path.startsWith(mountPath) && (path.length === mountPath.length || path.charCodeAt(mountPath.length) === SLASH)
}

/**
 * The path as the client sent it, where the host names a mount path of its own. `hostMount` is what
 * the framework says that it stripped. A path that a proxy or a router shortened gets its front
 * back; one that has it already stays as it is.
 */
export function pathUnder(mountPath: string, path: string, hostMount: string): string {
  if (hostMount === '' && isUnder(path, mountPath)) return path
  return mountPath + path.slice(hostMount.length)
}
