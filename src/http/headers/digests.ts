import { headerText } from './reader.js'
import { isUtf8 } from 'node:buffer'
import { createHash, timingSafeEqual, type Hash } from 'node:crypto'
import { httpError } from '../errors.js'
import type { RequestHeaders } from '../exchange.js'

/** Hash algorithms of digest headers that are not deprecated (RFC 9530 section 5). */
export type DigestAlgorithm = 'sha-256' | 'sha-512'

/** Digests of the same bytes by algorithm, in base64. */
export type Digests = Readonly<Partial<Record<DigestAlgorithm, string>>>

export const DIGEST_ALGORITHMS = {
  'sha-256': { bytes: 32, hash: 'sha256' },
  'sha-512': { bytes: 64, hash: 'sha512' },
} as const satisfies Record<DigestAlgorithm, object>

const NAMES = Object.keys(DIGEST_ALGORITHMS) as DigestAlgorithm[]
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
const BYTES = /^:(.*):$/
const PREFERENCE = /^(?:[0-9]|10)$/

export function isDigest(algorithm: DigestAlgorithm, text: unknown): text is string {
  if (typeof text !== 'string' || !BASE64.test(text)) return false
  return Buffer.from(text, 'base64').byteLength === DIGEST_ALGORITHMS[algorithm].bytes
}

/**
 * Reads the known digests of a Content-Digest or Repr-Digest header (RFC 9530 sections 2 and 3);
 * `undefined` if it is malformed.
 */
export function parseDigests(header: string | readonly string[]): Digests | undefined {
  const members = parseDictionary(headerText(header))
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

export function digestHeader(digests: Digests): string {
  const known = NAMES.filter((name) => digests[name] !== undefined)
  return known.map((name) => `${name}=:${digests[name]}:`).join(', ')
}

/** Reads a Want-Repr-Digest header (RFC 9530 section 4). Ignores a malformed one. Never throws. */
export function parseWantedDigests(
  header: string | readonly string[] = '',
): Readonly<Record<'wanted' | 'refused', readonly DigestAlgorithm[]>> {
  const members = parseDictionary(headerText(header))
  const preferenceOf = (name: DigestAlgorithm): number => {
    const value = members?.get(name) ?? ''
    return PREFERENCE.test(value) ? Number(value) : -1
  }
  const wanted = NAMES.filter((name) => preferenceOf(name) > 0)
  return {
    wanted: wanted.sort((a, b) => preferenceOf(b) - preferenceOf(a)),
    refused: NAMES.filter((name) => preferenceOf(name) === 0),
  }
}

interface Expected {
  readonly digest: Buffer
  readonly hash: Hash
}

/** Compares the bytes of a body with its `Content-Digest` or `Repr-Digest` (RFC 9530). */
export class ContentDigest {
  private constructor(
    private readonly expected: readonly Expected[], private readonly header: string,
  ) {}

  /**
   * Returns the check for one body; `undefined` without a known digest.
   * @throws {HttpError} 400 `invalid_header`: the header is malformed
   */
  static of(
    headers: RequestHeaders, name: 'content-digest' | 'repr-digest' = 'content-digest',
  ): ContentDigest | undefined {
    const header = headers[name]
    if (header === undefined) return undefined
    const digests = parseDigests(header)
    const shown = name === 'content-digest' ? 'Content-Digest' : 'Repr-Digest'
    if (digests === undefined) {
      const reason = 'is malformed, or has no digest where it names sha-256 or sha-512.'
      throw httpError('invalid_header', { message: `${shown} ${reason}` })
    }
    const expected = Object.entries(digests).map(([algorithm, digest]): Expected => ({
      digest: Buffer.from(digest, 'base64'),
      hash: createHash(DIGEST_ALGORITHMS[algorithm as DigestAlgorithm].hash),
    }))
    return expected.length === 0 ? undefined : new ContentDigest(expected, shown)
  }

  /**
   * Returns the digests of bytes that your framework has read; `undefined` if it has decoded them.
   */
  static ofParsed(headers: RequestHeaders, left: unknown): ContentDigest | undefined {
    if (isCoded(headers) && !isStillCoded(headers, left)) return undefined
    return ContentDigest.of(headers)
  }

  check(bytes: Uint8Array): Uint8Array {
    this.#add(bytes)
    this.#end()
    return bytes
  }

  async* checked(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of pieces) {
      this.#add(piece)
      yield piece
    }
    this.#end()
  }

  #add(bytes: Uint8Array): void {
    for (const { hash } of this.expected) hash.update(bytes)
  }

  #end(): void {
    for (const { digest, hash } of this.expected) {
      if (timingSafeEqual(hash.digest(), digest)) continue
      throw httpError('digest_mismatch', {
        message: `The content is not what its ${this.header} says.`,
      })
    }
  }
}

// The grammar of Dictionaries in Structured Fields (RFC 9651 sections 3.2 and 4.2.2).

const KEY = '[a-z*][a-z0-9_.*-]*'
const NUMBER = '-?(?:[0-9]{1,12}\\.[0-9]{1,3}|[0-9]{1,15})'
const TEXT = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"'
const TOKEN = '[A-Za-z*][\\w!#$%&\'*+.^`|~:/-]*'
const SEXTET = '[A-Za-z0-9+/]'
const BYTE_SEQUENCE = `:(?:${SEXTET}{4})*(?:${SEXTET}{2}(?:==)?|${SEXTET}{3}=?)?:`
const DATE = '@-?[0-9]{1,15}'
const DISPLAY_TEXT = '%"(?:[ !#$&-~]|%[0-9a-f]{2})*"'
const BARE_ITEM = `(?:${NUMBER}|${TEXT}|${TOKEN}|${BYTE_SEQUENCE}|\\?[01]|${DATE}|${DISPLAY_TEXT})`
const PARAMETERS = `(?:; *${KEY}(?:=${BARE_ITEM})?)*`
const ITEM = `${BARE_ITEM}${PARAMETERS}`
// After `( *` comes an item or the end, so that spaces can be divided in one way only.
const INNER_LIST = `\\( *(?:${ITEM}(?: +${ITEM})* *)?\\)`
const MEMBER = new RegExp(`(${KEY})(?:=(${BARE_ITEM}|${INNER_LIST}))?${PARAMETERS}`, 'y')
const COMMA = /[ \t]*,[ \t]*/y
const END = /[ \t]*$/y

/**
 * Reads a dictionary: the text of each value, without parameters; `?1` for a key without a value.
 * `undefined` if it is malformed.
 */
export function parseDictionary(text: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>()
  let at = text.search(/[^ ]|$/)
  if (at === text.length) return members
  for (;;) {
    const member = match(MEMBER, text, at)
    if (member === undefined) return undefined
    const [all, key = '', value = '?1'] = member
    members.set(key, value)
    at += all.length
    if (match(END, text, at) !== undefined) return members
    const comma = match(COMMA, text, at)
    if (comma === undefined) return undefined
    at += comma[0].length
  }
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at
  return pattern.exec(text) ?? undefined
}

export function isCoded({ 'content-encoding': header }: RequestHeaders): boolean {
  if (header === undefined || header === '') return false
  return !(typeof header === 'string' && header.toLowerCase() === 'identity')
}

/** Reads `Content-Length`; `undefined` if the request does not say how long its body is. */
export function readContentLength(headers: RequestHeaders): number | undefined {
  const header = headers['content-length']
  return typeof header === 'string' && /^[0-9]{1,15}$/.test(header) ? Number(header) : undefined
}

const GZIP = /^(?:x-)?gzip$/i

/**
 * Returns true if a coded body that your framework has left as bytes or text is still coded.
 * Parsers of Express and Koa decode and keep Content-Encoding; those of Fastify do not decode.
 * Compressed bytes are not UTF-8. Decoded bytes are UTF-8, or their length differs from the sent
 * length, or they do not begin as gzip does.
 */
export function isStillCoded(headers: RequestHeaders, left: unknown): boolean {
  if (!isCoded(headers)) return false
  const isGzip = GZIP.test(headerText(headers['content-encoding'] ?? ''))
  // A parser that decodes compressed bytes as text replaces some of them.
  if (typeof left === 'string') {
    return isGzip ? left.startsWith('\x1f\ufffd') : left.includes('\ufffd')
  }
  if (!(left instanceof Uint8Array) || isUtf8(left)) return false
  if (isGzip && !(left[0] === 0x1f && left[1] === 0x8b)) return false
  const length = readContentLength(headers)
  return length === undefined || length === left.byteLength
}
