const SLASH = 0x2f

/**
 * Returns the request target in origin form (RFC 9112 section 3.2). Removes the origin from the
 * absolute form that proxies send.
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
 * Splits a request target into path and query, both percent-encoded. The query is `''` or starts
 * with `?`. Accepts origin form and absolute form; returns `*` and `host:port` as the path. Much
 * faster than `new URL`, which matters because every request passes here.
 */
export function splitTarget(target: string): { path: string; search: string } {
  const origin = originForm(target)
  const mark = origin.indexOf('?')
  return mark < 0
    ? { path: origin, search: '' }
    : { path: origin.slice(0, mark), search: origin.slice(mark) }
}

/**
 * Returns a mount path in the form of `HttpRequest.mountPath`: `''`, or `/…` without a trailing
 * slash.
 *
 * @throws {TypeError} The path does not start with `/`.
 */
export function cleanMountPath(mountPath: string): string {
  let end = mountPath.length
  while (end > 0 && mountPath.charCodeAt(end - 1) === SLASH) end--
  const clean = mountPath.slice(0, end)
  if (clean !== '' && clean.charCodeAt(0) !== SLASH) {
    throw new TypeError(
      `mountPath has to start with "/", and "${mountPath}" does not: write "/${mountPath}"`,
    )
  }
  return clean
}

/** Returns whether `path` is `mountPath` or lies below it. */
function isUnder(path: string, mountPath: string): boolean {
  return (
    path.startsWith(mountPath) &&
    (path.length === mountPath.length || path.charCodeAt(mountPath.length) === SLASH)
  )
}

/**
 * Returns the path as the client sent it, for a host that sets a mount path. `hostMount` is the
 * prefix that the framework removed. Restores the prefix that a proxy or router removed, unless the
 * path still has it.
 */
export function pathUnder(mountPath: string, path: string, hostMount: string): string {
  if (hostMount === '' && isUnder(path, mountPath)) return path
  return mountPath + path.slice(hostMount.length)
}

const BACKSLASH = /\\/g

/**
 * Returns a path as a reference for `Location`, `Link` and the like (RFC 3986 section 4.2). Clients
 * take `//` at its start for another host, and `\` for `/`. So a request for `/\evil.example` would
 * name another origin. `/.//` leads to the same path on this origin.
 */
export function toReference(path: string): string {
  if (path.charCodeAt(1) !== SLASH && !path.includes('\\')) return path
  const escaped = path.replace(BACKSLASH, '%5C')
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}
