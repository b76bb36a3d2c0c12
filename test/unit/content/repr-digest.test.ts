// Repr-Digest and Want-Repr-Digest (RFC 9530) of content.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { content } from '../../../src/content/content.js'
import type { ContentSource } from '../../../src/content/source.js'
import type { DigestAlgorithm } from '../../../src/http/headers/digests.js'
import { see, textSource } from '../kit/content.js'

const TEXT = 'some text '.repeat(300)
const digestOf = (algorithm: DigestAlgorithm, text = TEXT): string => (
  createHash(algorithm.replace('-', '')).update(text).digest('base64')
)
const SHORT = `sha-256=:${digestOf('sha-256')}:`
const LONG = `sha-512=:${digestOf('sha-512')}:`
const KNOWN = { 'sha-256': digestOf('sha-256'), 'sha-512': digestOf('sha-512') }

/** Returns the Repr-Digest of an answer, and its status. */
async function ask(
  source: Partial<ContentSource>, headers: Record<string, string> = {}, method = 'GET', options = {},
): Promise<[status: number | undefined, digest: unknown]> {
  const seen = await see(content(textSource(TEXT, source), options), method, headers)
  return [seen?.status, seen?.headers['repr-digest']]
}

describe('digests that a source provides', () => {
  test('are sent with the whole content, with parts, and to HEAD', async () => {
    const source = { digests: KNOWN }
    assert.deepEqual(await ask(source), [200, `${SHORT}, ${LONG}`])
    assert.deepEqual(await ask(source, {}, 'HEAD'), [200, `${SHORT}, ${LONG}`])
    assert.deepEqual(await ask(source, { range: 'bytes=5-9' }), [206, `${SHORT}, ${LONG}`])
    assert.deepEqual(await ask(source, { range: 'bytes=5-9,100-109' }), [206, `${SHORT}, ${LONG}`])
  })

  test('are not sent with 304, 412, 416 or with a content coding', async () => {
    const source = { digests: KNOWN }
    assert.deepEqual(await ask(source, { 'if-none-match': '"v1"' }), [304, undefined])
    assert.deepEqual(await ask(source, { 'if-match': '"v2"' }), [412, undefined])
    assert.deepEqual(await ask(source, { range: 'bytes=9999-' }), [416, undefined])
    assert.deepEqual(await ask(source, { 'accept-encoding': 'gzip' }, 'GET', { codings: ['gzip'] }), [200, undefined])
    assert.deepEqual(
      await ask(source, { 'accept-encoding': 'gzip', 'range': 'bytes=0-' }, 'GET', { codings: ['gzip'] }),
      [206, `${SHORT}, ${LONG}`],
    )
  })

  test('are chosen by Want-Repr-Digest', async () => {
    for (const [want, digests, expected] of [
      ['sha-512=10, sha-256=1', KNOWN, LONG],
      ['sha-256=10, sha-512=1', KNOWN, SHORT],
      ['sha-512=10', { 'sha-256': KNOWN['sha-256'] }, SHORT],
      ['sha-256=0', KNOWN, LONG],
      ['sha-256=0', { 'sha-256': KNOWN['sha-256'] }, undefined],
      ['md5=10', KNOWN, `${SHORT}, ${LONG}`],
      ['malformed =', KNOWN, `${SHORT}, ${LONG}`],
      ['sha-256=1', {}, undefined],
    ] as const) assert.deepEqual(await ask({ digests }, { 'want-repr-digest': want }), [200, expected], want)
  })

  test('cause an error of the application if they are malformed', async () => {
    for (const digests of [
      { 'sha-256': 'abc' },
      { 'sha-512': KNOWN['sha-256'] },
      { md5: 'YWJj' },
      { 'sha-256': `${KNOWN['sha-256']}\r\nx: y` },
    ] as object[]) {
      assert.throws(() => content(textSource(TEXT, { digests })), TypeError, JSON.stringify(digests))
    }
  })
})

describe('digests that a source computes', () => {
  const computing = (asked: DigestAlgorithm[], late = false): Partial<ContentSource> => ({
    digest: (algorithm) => {
      asked.push(algorithm)
      return late ? Promise.resolve(digestOf(algorithm)) : digestOf(algorithm)
    },
  })

  test('are computed only for clients that want them, with the algorithm that they prefer', async () => {
    for (const late of [false, true]) {
      const asked: DigestAlgorithm[] = []
      const source = computing(asked, late)
      assert.deepEqual(await ask(source), [200, undefined])
      assert.deepEqual(await ask(source, { 'want-repr-digest': 'md5=1, sha-256=0' }), [200, undefined])
      assert.deepEqual(await ask(source, { 'want-repr-digest': 'sha-256=1', 'if-none-match': '"v1"' }), [
        304,
        undefined,
      ])
      assert.deepEqual(await ask(source, { 'want-repr-digest': 'sha-256=1', 'range': 'bytes=9999-' }), [416, undefined])
      assert.deepEqual(asked, [])
      assert.deepEqual(await ask(source, { 'want-repr-digest': 'sha-256=1, sha-512=2' }), [200, LONG])
      assert.deepEqual(await ask(source, { 'want-repr-digest': 'sha-256=1', 'range': 'bytes=1-2' }), [206, SHORT])
      assert.deepEqual(await ask(source, { 'want-repr-digest': 'sha-256=1' }, 'HEAD'), [200, SHORT])
      assert.deepEqual(asked, ['sha-512', 'sha-256', 'sha-256'])
    }
  })

  test('are not computed if the source provides a wanted digest', async () => {
    const asked: DigestAlgorithm[] = []
    const source = { ...computing(asked), digests: { 'sha-256': KNOWN['sha-256'] } }
    assert.deepEqual(await ask(source, { 'want-repr-digest': 'sha-512=10, sha-256=1' }), [200, SHORT])
    assert.deepEqual(asked, [])
  })

  test('may be missing, and cause a 500 if they are malformed', async () => {
    const want = { 'want-repr-digest': 'sha-256=1' }
    assert.deepEqual(await ask({ digest: () => undefined }, want), [200, undefined])
    assert.deepEqual((await ask({ digest: () => 'nonsense' }, want))[0], 500)
  })
})
