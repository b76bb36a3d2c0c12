/** Returns an OpenAPI document, or a part of it, with its components in place of the references to them. */
export function dereference<T>(document: object, part: unknown = document): T {
  if (Array.isArray(part)) return part.map((each) => dereference(document, each)) as T
  if (typeof part !== 'object' || part === null) return part as T
  if ('$ref' in part && typeof part.$ref === 'string' && part.$ref.startsWith('#/components/')) {
    const target = part.$ref
      .slice(2)
      .split('/')
      .reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], document)
    return dereference(document, target)
  }
  return Object.fromEntries(Object.entries(part).map(([key, each]) => [key, dereference(document, each)])) as T
}
