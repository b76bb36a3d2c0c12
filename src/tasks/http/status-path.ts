/** A status path such as `/api/status/{id}`, below the mount path. */
export interface StatusPath {
  readonly template: string
  /** The path of one task's status resource, mount path included. */
  readonly of: (mountPath: string, id: string) => string
  /** The id in a path, or `undefined` when it is not such a path. */
  readonly idIn: (mountPath: string, path: string) => string | undefined
}

/** Throws a `TypeError` unless `template` starts with `/` and has `{id}` as one whole segment. */
export function statusPath(template: string): StatusPath {
  const parts = String(template).split('{id}')
  const [before = '', after = ''] = parts
  if (parts.length !== 2 || !before.startsWith('/') || !before.endsWith('/') || (after !== '' && !after.startsWith('/')) || /[{}:*?#\s]/.test(before + after)) {
    throw new TypeError(`taskEndpoints: statusPath must be a path with one {id}, such as '/tasks/{id}', not ${JSON.stringify(template)}`)
  }
  return {
    template,
    of: (mountPath, id) => mountPath + before + id + after,
    idIn: (mountPath, path) => {
      const start = mountPath.length + before.length
      const end = path.length - after.length
      if (end <= start || !path.startsWith(mountPath) || !path.startsWith(before, mountPath.length) || !path.endsWith(after)) return undefined
      const id = path.slice(start, end)
      return id.includes('/') ? undefined : id
    },
  }
}
