/**
 * Checks keys and values. PostgreSQL refuses U+0000. The client would replace half of a surrogate
 * pair.
 *
 * @throws {TypeError} A text has U+0000, or is not well-formed.
 */
export function checkText(...texts: readonly (string | undefined)[]): void {
  for (const text of texts) {
    if (text === undefined || (text.isWellFormed() && !text.includes('\0'))) continue
    throw new TypeError('A key or value must be well-formed text without U+0000')
  }
}
