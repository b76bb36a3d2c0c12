import { parseAccept } from '../http/fields/accept.js'
import type { HttpRequest } from '../http/exchange.js'
import { Memo } from '../runtime/collections.js'
import { fieldText } from '../http/fields/reader.js'
import type { Selector } from './selectors.js'

/**
 * Gives the request as the handler of one version sees it: a version in the path is part of the
 * mount path, and the vendor's media types are `application/json`, so the handler needs to know of
 * neither. `version` is what `request.version` says there.
 */
export function innerRequests<C>(
  select: readonly Selector[],
): (request: HttpRequest<C>, version?: string) => HttpRequest<C> {
  const known = new Memo((accept: string) => ({ plain: plainAccept(accept, select) }))
  return (request, version) => {
    let mountPath: string | undefined
    for (const selector of select) mountPath ??= selector.mountPath?.(request)
    const { accept } = request.headers
    const plain = accept === undefined || accept === '*/*'
      ? undefined
      : known.get(fieldText(accept)).plain
    if (mountPath === undefined && plain === undefined && version === undefined) return request
    return request.with({
      ...version === undefined ? {} : { version },
      ...mountPath === undefined ? {} : { mountPath },
      ...plain === undefined ? {} : { headers: { ...request.headers, accept: plain } },
    })
  }
}

/**
 * The Accept field with one `application/json` for all of the vendor's types; `undefined` where it
 * names none.
 */
function plainAccept(accept: string, select: readonly Selector[]): string | undefined {
  const ranges = parseAccept(accept)
  const isVendor = ({ type, subtype }: { type: string; subtype: string }): boolean =>
    select.some((selector) => selector.isVendorType?.(type, subtype))
  const vendors = ranges.filter(isVendor)
  if (vendors.length === 0) return undefined
  const others = ranges.filter((range) => !isVendor(range)).map(({ type, subtype, params, q }) => {
    const rest = [...params].map(([name, value]) => `;${name}="${value.replaceAll(/["\\]/g, '\\$&')}"`).join('')
    return `${type}/${subtype}${rest}${weight(q)}`
  })
  const q = Math.max(...vendors.map((range) => range.q))
  // One that refuses a version says nothing against the others.
  return (q === 0 ? others : [`application/json${weight(q)}`, ...others]).join(', ') || '*/*'
}

function weight(q: number): string {
  return q === 1 ? '' : `;q=${String(q)}`
}
