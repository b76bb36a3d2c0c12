import type { RequestHeaders } from '../exchange.js'

/** Returns true if the content of a request has a content coding (RFC 9110 section 8.4). */
export function isCoded({ 'content-encoding': field }: RequestHeaders): boolean {
  if (field === undefined || field === '') return false
  return !(typeof field === 'string' && field.toLowerCase() === 'identity')
}
