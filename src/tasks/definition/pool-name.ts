/** The name of the pool of definitions that name none. */
export const DEFAULT_POOL = 'default'

const NAME = /^[A-Za-z0-9_-]{1,64}$/

/** Returns whether a text can be the name of a pool. */
export function isPoolName(name: unknown): name is string {
  return typeof name === 'string' && NAME.test(name)
}
