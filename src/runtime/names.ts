/** Maximum length of an owner's id and of a key, in UTF-16 units. At most 1536 bytes in UTF-8. */
export const MAX_NAME = 512

/** Maximum length of a caller that limits count: the id of an owner, with its kind before it. */
export const MAX_CALLER = MAX_NAME + 16

/** Ends the sentence "the owner must be …". */
export const NAME_RULE = `a well-formed string of 1 to ${MAX_NAME} characters without U+0000`

/** Returns true if every engine and store keeps a text as it is: well-formed, without U+0000. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** Returns true if every engine and store takes a value as an owner's id or as a key. */
export function isName(value: unknown, max = MAX_NAME): value is string {
  return typeof value === 'string' && value.length >= 1 && value.length <= max && isStorable(value)
}
