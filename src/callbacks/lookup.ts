import dns from 'node:dns'
import { lookup as systemLookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'

/** One address of a host name. */
export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

/**
 * Resolves a host name to all its addresses. `signal` aborts when nobody needs the addresses any
 * more. The request keeps its place in all limits until the promise settles.
 */
export type ResolveHost = (
  host: string, signal: AbortSignal,
) => Promise<readonly ResolvedAddress[]>

/** Maximum time to resolve a public name. */
const DEADLINE_MS = 5000
/** Time until the first query is repeated, and the number of tries at each name server. */
const QUERY = { timeout: 1000, tries: 3 }

/** Occupies one of the few threads that all of the process shares, and cannot be cancelled. */
export const systemResolve: ResolveHost = (host) => systemLookup(host, { all: true, verbatim: true })

/** Queries the name servers of `dns.setServers`. Occupies no thread, and ends after 5 s. */
export const publicResolve: ResolveHost = async (host, signal) => {
  signal.throwIfAborted()
  // `cancel` ends all queries of a resolver, so each name has its own.
  const resolver = new Resolver(QUERY)
  try {
    // Not by a named import: `dns.setServers` replaces the functions of the module.
    resolver.setServers(dns.getServers())
  } catch {
    // An address with a zone cannot be set. The resolver has read the same configuration.
  }
  const cancel = (): void => { resolver.cancel() }
  const deadline = setTimeout(cancel, DEADLINE_MS)
  signal.addEventListener('abort', cancel, { once: true })
  try {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    if (four.status === 'rejected' && six.status === 'rejected') throw four.reason as Error
    return [four, six].flatMap((found) => found.status === 'fulfilled' ? found.value : [])
      .map((address) => ({ address, family: isIP(address) }))
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener('abort', cancel)
  }
}
