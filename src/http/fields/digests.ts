import { parseDictionary } from './dictionary.js'
import { fieldText } from './reader.js'

/** Hash algorithms of digest fields that are not deprecated (RFC 9530 section 5). */
export type DigestAlgorithm = 'sha-256' | 'sha-512'

/** Digests of the same bytes by algorithm, in base64. */
export type Digests = Readonly<Partial<Record<DigestAlgorithm, string>>>

/** Size of a digest, and the name of its algorithm in node:crypto. */
export const DIGEST_ALGORITHMS = {
  'sha-256': { bytes: 32, hash: 'sha256' },
  'sha-512': { bytes: 64, hash: 'sha512' },
} as const satisfies Record<DigestAlgorithm, object>

const NAMES = Object.keys(DIGEST_ALGORITHMS) as DigestAlgorithm[]
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
const BYTES = /^:(.*):$/
const PREFERENCE = /^(?:[0-9]|10)$/

/** Returns true if `text` is a digest of the algorithm in base64. */
export function isDigest(algorithm: DigestAlgorithm, text: unknown): text is string {
  if (typeof text !== 'string' || !BASE64.test(text)) return false
  return Buffer.from(text, 'base64').byteLength === DIGEST_ALGORITHMS[algorithm].bytes
}

/**
 * Reads the known digests of a Content-Digest or Repr-Digest field (RFC 9530 sections 2 and 3).
 * Ignores other algorithms. Returns `undefined` if the field is malformed, or has another value for
 * a known algorithm.
 */
export function parseDigests(field: string | readonly string[]): Digests | undefined {
  const members = parseDictionary(fieldText(field))
  if (members === undefined) return undefined
  const digests: Partial<Record<DigestAlgorithm, string>> = {}
  for (const name of NAMES) {
    const value = members.get(name)
    if (value === undefined) continue
    const digest = BYTES.exec(value)?.[1]
    if (!isDigest(name, digest)) return undefined
    digests[name] = digest
  }
  return digests
}

/** Writes a Content-Digest or Repr-Digest field. */
export function digestField(digests: Digests): string {
  const known = NAMES.filter((name) => digests[name] !== undefined)
  return known.map((name) => `${name}=:${digests[name]}:`).join(', ')
}

/** Preferences of a Want-Repr-Digest or Want-Content-Digest field. */
export interface WantedDigests {
  /** Known algorithms that the client wants, the most preferred first. */
  readonly wanted: readonly DigestAlgorithm[]
  /** Known algorithms that the client refuses with 0. */
  readonly refused: readonly DigestAlgorithm[]
}

const NOTHING: WantedDigests = { wanted: [], refused: [] }

/**
 * Reads a Want-Repr-Digest field (RFC 9530 section 4): integers from 0, which refuses an algorithm,
 * to 10. Of two equal ones, `sha-256` comes first. Ignores other algorithms and other values, and a
 * field that is malformed. Never throws.
 */
export function parseWantedDigests(field: string | readonly string[] | undefined): WantedDigests {
  const members = field === undefined ? undefined : parseDictionary(fieldText(field))
  if (members === undefined) return NOTHING
  const preferenceOf = (name: DigestAlgorithm): number => {
    const value = members.get(name) ?? ''
    return PREFERENCE.test(value) ? Number(value) : -1
  }
  const wanted = NAMES.filter((name) => preferenceOf(name) > 0)
  return {
    wanted: wanted.sort((a, b) => preferenceOf(b) - preferenceOf(a)),
    refused: NAMES.filter((name) => preferenceOf(name) === 0),
  }
}
