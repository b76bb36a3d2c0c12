/** Maximum length of an owner's id and of a key, in UTF-16 units. At most 1536 bytes in UTF-8. */
export const MAX_NAME = 512

/** Maximum length of a caller that limits count: an owner or a tenant, with its kind before it. */
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

/** Ends the tenant in the owner of a stored task: U+001F, the unit separator. No id may contain it. */
const END_OF_TENANT = '\u001F'

/** Returns true if a value can be the id of an owner, or of a tenant. */
export function isOwnerId(value: unknown): value is string {
  return isName(value) && !value.includes(END_OF_TENANT)
}

/** An owner as applications name it. */
export interface NamedOwner {
  readonly owner: string | undefined
  readonly tenant: string | undefined
}

/**
 * Returns the owner of a stored task: one string for owner and tenant, so that whatever compares owners,
 * or makes a key of one, keeps tenants apart. `undefined` for neither.
 */
export function storedOwner({ owner, tenant }: NamedOwner): string | undefined {
  return tenant === undefined ? owner : `${tenant}${END_OF_TENANT}${owner ?? ''}`
}

/** Returns the owner and the tenant of a stored task. */
export function namedOwner(stored: string | undefined): NamedOwner {
  const end = stored?.indexOf(END_OF_TENANT) ?? -1
  if (stored === undefined || end < 0) return { owner: stored, tenant: undefined }
  return { owner: stored.slice(end + 1) || undefined, tenant: stored.slice(0, end) }
}
