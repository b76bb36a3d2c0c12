import type { Store } from '../../stores/store.js'

/** Time for which a reached limit is remembered, in milliseconds. */
const REMEMBERED_MS = 3_600_000

/**
 * Returns how many milliseconds have passed since this was first called with `name`, up to
 * `limitMs`. The store's clock decides, so processes whose clocks differ agree. The first call
 * starts a counter that expires after `limitMs`; an entry beside it tells a counter that has
 * expired from one that never was.
 */
export async function elapsed(store: Store, name: string, limitMs: number): Promise<number> {
  const { value, resetMs } = await store.increment(`since:${name}`, 1, { ttlMs: limitMs })
  if (value > 1) return Math.max(limitMs - resetMs, 0)
  const first = await store.create(`since:${name}`, '', { ttlMs: limitMs + REMEMBERED_MS })
  return first.created ? 0 : limitMs
}
