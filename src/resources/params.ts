import { httpError } from '../http/errors.js'

type Params = Record<string, string>

/**
 * Percent-decodes `params`, a fresh object without a prototype, in place, and adds those of `outer`
 * that have other names.
 *
 * @param names - the parameters of the route
 * @throws HttpError 400 `invalid_path` for a value that is badly encoded, `.` or `..`, or has a NUL
 */
export function finishParams(params: Params, names: readonly string[], outer: Readonly<Params>): Params {
  for (const name of names) params[name] = decode(params[name] ?? '')
  for (const name in outer) {
    if (!(name in params)) params[name] = outer[name] ?? ''
  }
  return params
}

function decode(raw: string): string {
  const value = raw.includes('%') ? decodeSegment(raw) : raw
  if (value === undefined || value === '.' || value === '..' || value.includes('\0')) throw httpError('invalid_path')
  return value
}

function decodeSegment(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw)
  } catch {
    return undefined
  }
}
