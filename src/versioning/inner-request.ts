import { parseAccept } from '../http/accept.js'
import { DerivedRequest } from '../http/derived-request.js'
import type { HttpRequest } from '../http/exchange.js'
import type { Selector } from './selectors.js'

/**
 * The request as the handler of one version sees it: a version in the path is part of the mount path, and the vendor's media
 * types are `application/json`, so the handler needs to know of neither.
 */
export function innerRequest<C>(request: HttpRequest<C>, select: readonly Selector[]): HttpRequest<C> {
  let mountPath: string | undefined
  for (const selector of select) mountPath ??= selector.mountPath?.(request)
  const accept = plainAccept(request.headers['accept'], select)
  if (mountPath === undefined && accept === undefined) return request
  return new DerivedRequest<C>(request, {
    ...mountPath === undefined ? {} : { mountPath },
    ...accept === undefined ? {} : { headers: { ...request.headers, accept } },
  })
}

/** The Accept field with one `application/json` for all of the vendor's types; `undefined` where it names none. */
function plainAccept(accept: string | string[] | undefined, select: readonly Selector[]): string | undefined {
  if (accept === undefined || accept === '*/*') return undefined
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
