/**
 * Returns `text` if it has at most `max` UTF-16 units. Otherwise returns its beginning and `…`,
 * `max` units in all. Never splits a surrogate pair.
 */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text
  const high = text.charCodeAt(max - 2)
  return `${text.slice(0, high >= 0xd800 && high <= 0xdbff ? max - 2 : max - 1)}…`
}
