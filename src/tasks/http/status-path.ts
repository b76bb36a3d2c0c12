import type { HttpRequest } from '../../http/exchange.js'
import { toReference } from '../../http/request.js'
import { cutText } from '../../runtime/text.js'

const MAX_ISSUED = 16
const MAX_SHOWN = 200

export class StatusPath {
  readonly template: string
  readonly #before: string
  readonly #after: string
  /**
   * Locations of accepted tasks. `undefined` once a request has shown whether clients find tasks at
   * these locations.
   */
  #issued: Set<string> | undefined = new Set()

  /** @throws {TypeError} `{id}` is not one whole segment of the path. */
  constructor(template: string, option = 'taskEndpoints: statusPath', example = '/tasks/{id}') {
    const parts = String(template).split('{id}')
    const [before = '', after = ''] = parts
    const isWhole = before.startsWith('/') && before.endsWith('/')
      && (after === '' || after.startsWith('/'))
    if (parts.length !== 2 || !isWhole || /[{}:*?#\s]/.test(before + after)) {
      throw new TypeError(`${option} must be a path with one {id}, such as '${example}', ` +
        `not ${JSON.stringify(template)}`)
    }
    this.template = template
    this.#before = before
    this.#after = after
  }

  of(mountPath: string, id: string): string {
    return toReference(mountPath) + this.#before + id + this.#after
  }

  location(mountPath: string, id: string): string {
    const location = this.of(mountPath, id)
    if (this.#issued && this.#issued.size < MAX_ISSUED) this.#issued.add(location)
    return location
  }

  idIn(mountPath: string, path: string): string | undefined {
    const start = mountPath.length + this.#before.length
    const end = path.length - this.#after.length
    if (end <= start || !path.startsWith(mountPath)) return undefined
    if (!path.startsWith(this.#before, mountPath.length) || !path.endsWith(this.#after)) {
      return undefined
    }
    const id = path.slice(start, end)
    return id.includes('/') ? undefined : id
  }

  /** Returns the id in a path such as `{status}/items`. */
  idBelow({ mountPath, path, params }: HttpRequest<unknown>, below: string): string | undefined {
    if (!path.endsWith(below)) return undefined
    return this.idIn(mountPath, path.slice(0, -below.length)) ?? params['id']
  }

  /**
   * Call for a request at the status path, to which `Location` leads. Later calls of `checkMount`
   * then do nothing.
   */
  confirm(): void {
    this.#issued = undefined
  }

  /**
   * Call for a request at another path. Warns once if the handler is not mounted where `Location`
   * leads: only `id`, a parameter of the route, names the task, or a client has followed a `Location`.
   */
  checkMount({ path, mountPath }: HttpRequest, id: string | undefined): void {
    if (this.#issued === undefined) return
    const expected = this.of(mountPath, id ?? '{id}')
    if (id === undefined ? !this.#issued.has(path) : isSamePath(path, expected)) return
    this.#issued = undefined
    const seen = cutText(path, MAX_SHOWN)
    process.emitWarning(id === undefined
      ? `taskEndpoints: a client followed Location to ${seen}, but the status handler is mounted at ` +
        `${expected}. Mount it below the same path as submit.`
      : `taskEndpoints: the status handler was called at ${seen}, but Location is ` +
        `${cutText(expected, MAX_SHOWN)}. Let statusPath be the path where status is mounted. ` +
        'If a proxy changes paths, set mountPath of the binding.', 'LonghaulWarning')
  }
}

/** Routers of frameworks ignore case, and a slash at the end. */
function isSamePath(one: string, other: string): boolean {
  const normal = (path: string): string => path.toLowerCase().replace(/\/$/, '')
  return normal(one) === normal(other)
}
