const NAMESPACE = /^[A-Za-z0-9._-]{1,64}$/

/**
 * Throws a `TypeError` for a namespace that may not stand in keys. `where` names the option's
 * owner.
 */
export function checkNamespace(where: string, namespace: string): void {
  if (typeof namespace !== 'string' || !NAMESPACE.test(namespace)) {
    throw new TypeError(`${where}: namespace must be 1 to 64 of A-Z a-z 0-9 . _ -, not ${JSON.stringify(namespace)}`)
  }
}
