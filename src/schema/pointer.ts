export type PathStep = PropertyKey | { readonly key: PropertyKey }

/** Maximum length of a pointer, whose keys clients choose. */
const MAX_POINTER = 512

/** Appends a step to a JSON pointer (RFC 6901 section 3). */
export function childPointer(pointer: string, key: PropertyKey): string {
  const text = typeof key === 'symbol' ? (key.description ?? '') : String(key)
  if (pointer.length + text.length >= MAX_POINTER) return pointer
  const child = `${pointer}/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`
  return child.length <= MAX_POINTER ? child : pointer
}

/** Returns the JSON pointer (RFC 6901) of a path, `''` for the whole value. */
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

const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/
const ARRAY_INDEX = /^(?:0|[1-9][0-9]*)$/

/** Returns true if `text` is a JSON pointer (RFC 6901 section 3). */
export function isPointer(text: string): boolean {
  return POINTER.test(text)
}

/** Returns true if a key of a pointer can name an element of an array (RFC 6901 section 4). */
export function isArrayIndex(key: string): boolean {
  return ARRAY_INDEX.test(key)
}

/** Returns the keys of a JSON pointer, unescaped. */
export function fromPointer(pointer: string): string[] {
  if (pointer === '') return []
  const tokens = pointer.slice(1).split('/')
  return tokens.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}
