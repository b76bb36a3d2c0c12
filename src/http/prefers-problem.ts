import { closest, parseAccept, type MediaRange } from './fields/accept.js'
import { Memo } from '../runtime/memo.js'
import { fieldText } from './fields/reader.js'

const JSON_TYPE = { type: 'application/json', params: new Map<string, string>() }
const problems = new Memo((text: string) => ({ wanted: wantsProblem(parseAccept(text)) }))

/**
 * Whether errors go out as `application/problem+json`: only where the client names that very type
 * with a `q` above 0 and not below what the header gives `application/json`, by name or by a
 * wildcard.
 */
export function prefersProblem(header: string | readonly string[] | undefined): boolean {
  return header !== undefined && header !== '*/*' && problems.get(fieldText(header)).wanted
}

function wantsProblem(asked: readonly MediaRange[]): boolean {
  const named = asked.find((range) => range.type === 'application' && range.subtype === 'problem+json')
  return named !== undefined && named.q > 0 && named.q >= (closest(asked, JSON_TYPE)?.q ?? 0)
}
