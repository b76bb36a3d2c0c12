import { Memo } from '../../runtime/collections.js'
import type { PreferenceName } from '../../wire/prefer.js'
import { HeaderReader, headerText } from './reader.js'

export interface Preference {
  /** The unquoted value; `''` if there is none, which RFC 7240 treats like an empty value. */
  readonly value: string
  /** Parameters by lower-case name; the value is `''` if there is none. */
  readonly params: ReadonlyMap<string, string>
}

/** The preferences of a client. Shared between requests: do not change it. */
export interface Preferences {
  /** `respond-async`, without a value (RFC 7240 section 4.1). */
  readonly respondAsync: boolean
  /** `wait` in seconds, from 0 to 2147483647 (larger values are cut); `undefined` if not digits. */
  readonly wait: number | undefined
  readonly return: 'minimal' | 'representation' | undefined
  readonly handling: 'strict' | 'lenient' | undefined
  /** All preferences by lower-case name, unknown ones included. */
  readonly all: ReadonlyMap<string, Preference>
}

const MAX_WAIT = 2 ** 31 - 1
const DIGITS = /^[0-9]+$/
const NONE = preferences(new Map())
const memo = new Memo(parse)

/**
 * Reads the Prefer header (RFC 7240 with errata 4439). Names are case-insensitive, values are not.
 * The first preference of a name wins. Malformed items are skipped. Never throws.
 * @example
 * const { respondAsync, wait } = parsePrefer(request.headers.prefer)
 */
export function parsePrefer(header: string | readonly string[] | undefined): Preferences {
  return header === undefined ? NONE : memo.get(headerText(header))
}

function parse(text: string): Preferences {
  const all = new Map<string, Preference>()
  const reader = new HeaderReader(text)
  const items = reader.items(() => {
    const name = reader.token().toLowerCase()
    const value = name === '' ? undefined : reader.assigned()
    const params = value === undefined ? undefined : reader.parameters()
    return value === undefined || params === undefined ? undefined : { name, value, params }
  })
  for (const { name, value, params } of items) if (!all.has(name)) all.set(name, { value, params })
  return preferences(all)
}

function preferences(all: ReadonlyMap<string, Preference>): Preferences {
  const valueOf = (name: PreferenceName): string | undefined => all.get(name)?.value
  const wait = valueOf('wait')
  const returned = valueOf('return')
  const handling = valueOf('handling')
  return Object.freeze({
    respondAsync: valueOf('respond-async') === '',
    wait: wait !== undefined && DIGITS.test(wait) ? Math.min(Number(wait), MAX_WAIT) : undefined,
    return: returned === 'minimal' || returned === 'representation' ? returned : undefined,
    handling: handling === 'strict' || handling === 'lenient' ? handling : undefined,
    all,
  })
}
