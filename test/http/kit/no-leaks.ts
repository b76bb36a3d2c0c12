import assert from 'node:assert/strict'
import { ERROR_CODES } from '../../../src/http/errors.js'

/** What a body must not hold: stacks, paths, addresses, the libraries that it is made of, and what tests plant. */
const LEAKS = [
  /\bat [\w.$<>]+ ?\(/,
  /\bat (?:async )?(?:file|node):/,
  /node_modules/,
  /\/(?:home|work|usr|tmp|etc|root)\//,
  /\.(?:ts|mjs|cjs)\b/,
  /\.js\b/,
  /\\n\s+at /,
  /(?:Type|Range|Syntax|Reference|Assertion)?Error\b:/,
  /\b(?:E[A-Z]{4,}|ERR_[A-Z_]+|HPE_[A-Z_]+)\b/,
  /127\.0\.0\.1|localhost/,
  /\[object |undefined|NaN/,
  /\b(?:ioredis|bullmq|rou3|ajv|lru-cache|secure-json-parse|fast-json|standardwebhooks|ipaddr|undici|stream-json)\b/i,
  /secret/i,
]
const MEMBERS = new Set([
  'error', 'code', 'details', 'reason', 'summary', 'items', 'errors', 'message', 'status', 'title',
  'detail', 'report', 'stopped',
])
/** Codes of the reference server's own. */
const OWN = new Set<string>()

export interface Told {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Asserts that an answer of 400 and above has the one shape (SPEC 2.9, 7) and gives nothing away. */
export function assertTellsNothing(
  { status, text, headers }: Told,
  how: { readonly problem: boolean; readonly head?: boolean },
  where: string,
): void {
  for (const leak of LEAKS) {
    assert.doesNotMatch(text, leak, where)
    for (const [name, value] of Object.entries(headers))
      if (!['location', 'link', 'date', 'x-request-id'].includes(name))
        assert.doesNotMatch(String(value), leak, `${where}: ${name}`)
  }
  assert.equal(headers['content-type'], how.problem ? 'application/problem+json' : 'application/json', where)
  assert.match(String(headers['vary']), /\bAccept\b/, where)
  assert.equal(headers['x-powered-by'], undefined, where)
  if (how.head === true) return
  const body = JSON.parse(text) as Record<string, unknown>
  assert.ok(typeof body['error'] === 'string' && /^(?:[A-Z]|"[a-z_]+" ).*[.!?]$/s.test(body['error']), `${where}: a sentence: ${text}`)
  const code = String(body['code'])
  if (!OWN.has(code))
    assert.equal(
      (ERROR_CODES as Readonly<Record<string, readonly [number, string]>>)[code] !== undefined,
      true,
      `${where}: a code of the list: ${text}`,
    )
  for (const member of Object.keys(body)) assert.ok(MEMBERS.has(member), `${where}: ${member}`)
  for (const detail of (body['details'] ?? []) as Record<string, unknown>[]) {
    assert.deepEqual([typeof detail['pointer'], typeof detail['message']], ['string', 'string'], where)
  }
  if (how.problem)
    assert.deepEqual([body['status'], typeof body['title'], body['detail']], [status, 'string', body['error']], where)
  else for (const member of ['title', 'detail']) assert.equal(member in body, false, where)
}
