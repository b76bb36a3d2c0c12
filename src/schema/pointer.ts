/** A step of a path as Standard Schema gives it: a key, or an object that holds one. */
export type PathStep = PropertyKey | { readonly key: PropertyKey }

/**
 * Pointers longer than this stop at the nearest parent that fits: clients choose the keys that we
 * echo.
 */
const MAX_POINTER = 512

/**
 * One reference token of a JSON pointer, escaped (RFC 6901 section 3): `~` is `~0` and `/` is `~1`.
 */
export function escapeToken(key: string): string {
  if (!key.includes('~') && !key.includes('/')) return key
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}

/**
 * `pointer` one step further. A result above 512 characters is not made: the parent is given
 * instead.
 */
export function childPointer(pointer: string, key: PropertyKey): string {
  const text = typeof key === 'symbol' ? (key.description ?? '') : String(key)
  if (pointer.length + text.length >= MAX_POINTER) return pointer
  const child = `${pointer}/${escapeToken(text)}`
  return child.length <= MAX_POINTER ? child : pointer
}

/**
 * The JSON pointer (RFC 6901) of a path; `''` for none, which is the whole value. At most 512
 * characters.
 */
export function toPointer(path: readonly PathStep[] | undefined): string {
  let pointer = ''
  if (path === undefined) return pointer
  for (const step of path) {
    const child = childPointer(pointer, typeof step === 'object' ? step.key : step)
    if (child === pointer) return pointer
    pointer = child
  }
  return pointer
}

/**
 * The keys of a JSON pointer, unescaped; none for `''`. The reverse of `toPointer` for string keys.
 */
export function fromPointer(pointer: string): string[] {
  if (pointer === '') return []
  return pointer.slice(1).split('/').map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}
