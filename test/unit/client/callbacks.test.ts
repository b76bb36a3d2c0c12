import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { verifyCallback } from '../../../src/client/index.js'
import { messageBody, signedHeaders } from '../../../src/callbacks/message.js'

const SECRET = `whsec_${Buffer.from('a secret of some thirty bytes ...').toString('base64')}`
const OTHER = `whsec_${Buffer.from('another secret').toString('base64')}`
const NOW = Math.floor(Date.now() / 1000) * 1000
const body = messageBody({
  id: 't1',
  status: 'completed',
  createdAt: NOW,
  finishedAt: NOW,
  result: '{"message":"Fertig – ünïcode","n":1}',
})
const sign = (secrets = [SECRET], at = Date.now(), text = body) => signedHeaders(secrets, 'msg_1', at, text)

describe('verifyCallback', () => {
  test('verifies and reads callbacks of longhaul', async () => {
    const expected = { ...JSON.parse(body) as object, id: 'msg_1' }
    for (const one of [body, Buffer.from(body), new TextEncoder().encode(body)]) {
      for (const headers of [
        sign(),
        new Headers(sign()),
        Object.fromEntries(Object.entries(sign()).map(([name, value]) => [name.toUpperCase(), value])),
      ]) {
        assert.deepEqual(await verifyCallback(one, headers, SECRET), expected)
      }
    }
    const { data } = await verifyCallback<{ n: number }>(body, sign(), SECRET)
    assert.equal(data.result?.n, 1)
  })

  test('agrees with the standardwebhooks package', async () => {
    const theirs = new Webhook(SECRET)
    const good = sign()
    const broken = (name: string, value: string) => ({ ...good, [name]: value })
    const signature = good['webhook-signature'] ?? ''
    const cases: [string, string, Record<string, string>][] = [
      ['good', body, good],
      ['by two', body, sign([OTHER, SECRET])],
      ['another body', body.replace('Fertig', 'fertig'), good],
      ['another id', body, broken('webhook-id', 'msg_2')],
      ['another time', body, broken('webhook-timestamp', String(Number(good['webhook-timestamp']) + 1))],
      ['another secret', body, sign([OTHER])],
      ['an unknown version before it', body, broken('webhook-signature', `v2,abc ${signature}`)],
      ['an unknown version', body, broken('webhook-signature', signature.replace('v1,', 'v1a,'))],
      ['another mark after the version', body, broken('webhook-signature', signature.replace('v1,', 'v1.'))],
      ['a cut signature', body, broken('webhook-signature', signature.slice(0, -8))],
      ['no base64', body, broken('webhook-signature', 'v1,%%%%')],
      ['nothing', body, broken('webhook-signature', '')],
      ['too old', body, sign([SECRET], Date.now() - 301_000)],
      ['too far ahead', body, sign([SECRET], Date.now() + 302_000)],
      ['just in time', body, sign([SECRET], Date.now() - 295_000)],
      ['no time', body, broken('webhook-timestamp', 'soon')],
    ]
    for (const [name, text, headers] of cases) {
      const expected = await Promise.resolve().then(() => theirs.verify(text, headers)).then(() => true, () => false)
      const found = await verifyCallback(text, headers, SECRET).then(() => true, () => false)
      assert.equal(found, expected, name)
    }
    assert.deepEqual(
      await verifyCallback(
        body,
        {
          'webhook-id': 'msg_1',
          'webhook-timestamp': String(NOW / 1000),
          'webhook-signature': theirs.sign('msg_1', new Date(NOW), body),
        },
        SECRET,
      ),
      { ...(JSON.parse(body) as object), id: 'msg_1' },
    )
  })

  test('accepts several secrets during a rotation', async () => {
    await verifyCallback(body, sign([SECRET]), [OTHER, SECRET])
    await verifyCallback(body, sign([SECRET, OTHER]), [OTHER.replace('whsec_', '')])
    await assert.rejects(verifyCallback(body, sign([SECRET]), [OTHER]), {
      name: 'ClientError',
      code: 'callback_signature_invalid',
    })
  })

  test('names the reason for the rejection of a callback', async () => {
    await assert.rejects(verifyCallback(body, {}, SECRET), { code: 'callback_headers_missing' })
    await assert.rejects(verifyCallback(body, sign([SECRET], Date.now() - 301_000), SECRET), {
      code: 'callback_expired',
    })
    await assert.rejects(verifyCallback(body, sign([SECRET], Date.now() - 61_000), SECRET, { toleranceSeconds: 60 }), {
      code: 'callback_expired',
    })
    await verifyCallback(body, sign([SECRET], Date.now() - 900_000), SECRET, { toleranceSeconds: 1000 })
    for (const text of ['no json', '[]', '{"type":"task.completed"}'])
      await assert.rejects(verifyCallback(text, sign([SECRET], Date.now(), text), SECRET), {
        code: 'callback_malformed',
      })
    await assert.rejects(verifyCallback(body, sign(), []), TypeError)
    await assert.rejects(verifyCallback(body, sign(), 'whsec_%%%'), TypeError)
    await assert.rejects(verifyCallback(body, sign(), 'whsec_'), TypeError)
  })

  test('bounds the number of comparisons', async () => {
    const flood = `${Array(5000).fill('v1,AAAA').join(' ')} ${sign()['webhook-signature']}`
    await assert.rejects(verifyCallback(body, { ...sign(), 'webhook-signature': flood }, SECRET), {
      code: 'callback_signature_invalid',
    })
  })
})
