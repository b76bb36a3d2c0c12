const NAMESPACE = /^[A-Za-z0-9._-]{1,64}$/

/**
 * Checks a namespace that becomes part of keys. `where` names the caller in the error.
 *
 * @throws {TypeError} The namespace is not 1 to 64 of `A-Z a-z 0-9 . _ -`.
 */
export function checkNamespace(where: string, namespace: string): void {
  if (typeof namespace !== 'string' || !NAMESPACE.test(namespace)) {
    throw new TypeError(
      `${where}: namespace must be 1 to 64 of A-Z a-z 0-9 . _ -, not ${JSON.stringify(namespace)}`,
    )
  }
}
