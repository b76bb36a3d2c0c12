import assert from 'node:assert/strict'
import fc from 'fast-check'
import { bulkCreate } from '../../src/bulk/create.js'
import { bulkUpdate } from '../../src/bulk/update.js'
import type { BulkItem, BulkReport } from '../../src/bulk/index.js'
import { hasWellFormedStrings } from '../../src/json-array/element-reader.js'
import { inexactParsed } from '../../src/http/body/exact-json.js'
import { httpError } from '../../src/http/errors.js'
import type { Handler } from '../../src/http/exchange.js'
import { errorResponse } from '../../src/http/respond.js'
import { jsonSchema } from '../../src/schema/json-schema.js'
import { fakeRequest } from '../unit/kit/request.js'
import { linear } from './frame/linear.js'
import { mutated, mutatedBytes } from './frame/mutate.js'

interface Draft { readonly name: string; readonly email: string }

const CREATES = [
  '[{"name":"a","email":"a@b.cd"},{"name":"b","email":"b@b.cd"},{"name":"c"}]',
  '[{"name":"boom","email":"x@y"},{"name":"a","email":"a@b.cd"}]', '[{},1,null,[],"x"]', '[]',
  '{"updates":[]}',
  '[{"name":"a","email":"a@b","n":9007199254740993},{"name":"a","email":"c@b","n":1e309},{"name":"\\ud800","email":"d@b"}]',
  '[{"name":"a","name":"b","email":"a@b"}]',
]
const UPDATES = [
  '{"updates":[{"userId":1,"role":"a"},{"userId":2,"role":"b"}]}',
  '{"x":[1],"updates":[{"userId":1}],"y":{"updates":[2]}}', '{"updates":{}}',
  '{"updates":[],"updates":[{"userId":3}]}', '[]',
]
const PIECES = [
  '{', '}', '[', ']', ',', ':', '"', '\\u', '"name"', '"email":', '"a@b.cd"', '},{', '"boom"',
  '1e400', '12345678901234567890', '"updates":[', ' ', '\n',
]
const NUMBERS = [
  '1', '-9007199254740991', '9007199254740992', '1e16', '123456789012345e1', '1.5e300', '1E+309',
  '0.1', '-0', '1e-400', '{"a":[9007199254740993]}', '"\\ud83d\\ude00"', '"\\ud83d"',
  '{"\\udc00":1}',
]
const schema = jsonSchema<Draft>({
  type: 'object',
  required: ['name', 'email'],
  properties: { name: { type: 'string' }, email: { type: 'string', minLength: 3 } },
})

type Told = Partial<BulkReport> & {
  readonly status: number
  readonly code?: string
  readonly position?: { readonly item: number }
}

async function ask(handler: Handler, method: string, bytes: Buffer, size: number): Promise<Told> {
  const fake = fakeRequest({
    body: bytes,
    headers: { 'content-type': 'application/json', ...(size === 0 && { 'content-length': String(bytes.length) }) },
  })
  const stream = async function* (): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  const request = { ...fake, method, ...size > 0 && { body: { ...fake.body, stream } } }
  const answer =
    (await Promise.resolve(handler(request)).catch((error: unknown) => errorResponse(error, request))) ??
    assert.fail('not ours')
  let text = ''
  if (typeof answer.body === 'string') text = answer.body
  else
    for await (const piece of answer.body as AsyncIterable<Uint8Array | string>)
      text += typeof piece === 'string' ? piece : Buffer.from(piece).toString()
  return { ...JSON.parse(text) as Told, status: answer.status }
}

/** Creates users, one after the other; some explode, some are there already. */
function creating(
  atomic: boolean,
  streamAboveBytes: number,
): { readonly handler: Handler; readonly written: () => string[] } {
  let emails: string[] = []
  const create = ({ name, email }: Draft): { id: string } => {
    if (name === 'boom') throw new Error('boom')
    if (emails.includes(email)) throw httpError('conflict')
    emails.push(email)
    return { id: email }
  }
  const transaction = async <R>(work: (inside: { create: typeof create }) => Promise<R>): Promise<R> => {
    const before = [...emails]
    return work({ create }).catch((error: unknown) => {
      emails = before
      throw error
    })
  }
  return {
    handler: bulkCreate<{ id: string }, Draft>({
      repository: { create, transaction },
      schema,
      atomic,
      streamAboveBytes,
      concurrency: 1,
      onError: () => {},
    }),
    written: () => emails,
  }
}

function checkReport({ status, summary, items = [] }: Told): void {
  if (summary === undefined) return
  assert.deepEqual(items.map(({ index }) => index), items.map((_, at) => at))
  const failed = items.filter((item) => item.status >= 400).length
  assert.deepEqual(summary, { total: items.length, succeeded: items.length - failed, failed })
  if (failed === items.length) assert.ok(status >= 400, `${status}`)
}

const kinds = (items: readonly BulkItem[]): unknown[] => items.map(({ status, error, id }) => [status, error?.code, id])

export const rules = {
  'a batch is told item by item, and what is told is there: whole, in pieces, atomic': fc.asyncProperty(
    mutatedBytes(CREATES, PIECES),
    fc.integer({ min: 1, max: 50 }),
    fc.boolean(),
    async (bytes, size, atomic) => {
      const [one, other] = [creating(atomic, 1 << 20), creating(atomic, 0)]
      const [whole, streamed] = [
        await ask(one.handler, 'POST', bytes, 0),
        await ask(other.handler, 'POST', bytes, size),
      ]
      for (const [told, { written }] of [
        [whole, one],
        [streamed, other],
      ] as const) {
        checkReport(told)
        assert.deepEqual(
          written(),
          (told.items ?? []).flatMap(({ id }) => id ?? []),
        )
        assert.ok(told.status < 500 || told.items?.some((item) => item.status === 500), JSON.stringify(told))
      }
      const items = streamed.items ?? []
      // What cannot be read to its end has written nothing.
      if (streamed.position !== undefined) assert.deepEqual([streamed.summary, other.written()], [undefined, []])
      if (whole.summary !== undefined && streamed.code !== 'invalid_input')
        assert.deepEqual(kinds(items), kinds(whole.items ?? []))
      else if (whole.summary === undefined && whole.code !== 'unsafe_key')
        assert.ok(streamed.status >= 400, `${String(whole.code)} whole, ${streamed.status} in pieces`)
      if (atomic && streamed.status >= 400) assert.deepEqual(other.written(), [])
    },
  ),
  'an update is told item by item, whole or in pieces': fc.asyncProperty(
    mutatedBytes(UPDATES, PIECES),
    fc.integer({ min: 1, max: 50 }),
    async (bytes, size) => {
      const handler = (streamAboveBytes: number): Handler =>
        bulkUpdate<{ userId: number }, object, number>({
          repository: { update: (id) => (id === 2 ? undefined : { id }) },
          id: ({ userId }) => userId,
          change: () => ({}),
          key: () => undefined,
          streamAboveBytes,
          concurrency: 1,
          onError: () => {},
        })
      const [whole, streamed] = [
        await ask(handler(1 << 20), 'PATCH', bytes, 0),
        await ask(handler(0), 'PATCH', bytes, size),
      ]
      checkReport(whole)
      checkReport(streamed)
      // An array that is there twice is refused in pieces alone.
      if (streamed.status < 400) assert.deepEqual(kinds(streamed.items ?? []), kinds(whole.items ?? []))
    },
  ),
  'what is said to be well-formed is, and an integer that was rounded is seen': fc.property(
    mutated([...NUMBERS, ...CREATES], [...PIECES, '0', 'e', 'E+', '.']),
    (text) => {
      let value: unknown
      try {
        value = JSON.parse(text)
      } catch {
        return
      }
      const halves = inexactParsed(value).filter(({ message }) => message.includes('surrogate'))
      if (hasWellFormedStrings(text) && text.isWellFormed()) assert.deepEqual(halves, [])
      if (!/^-?\d+$/.test(text)) return
      // An integer that the engine had to round is always seen.
      const sent = BigInt(text)
      if (sent > BigInt(Number.MAX_SAFE_INTEGER) || sent < -BigInt(Number.MAX_SAFE_INTEGER))
        assert.equal(inexactParsed(value).length, 1)
    },
  ),
  'an id is told as it is': fc.asyncProperty(mutated(['a-b_c', '5', 'x'.repeat(20), '"', '\\'], PIECES), async (id) => {
    const { items } = await ask(
      bulkCreate({ repository: { create: () => ({ id }) } }),
      'POST',
      Buffer.from('[{},{}]'),
      0,
    )
    assert.deepEqual(
      items?.map((item) => item.id),
      [id, id],
    )
  }),
  'takes linear time': linear(
    ['{}', '1', '[]', '{"name":"a","email":"abc"}', '"\\ud800"', '9007199254740993'],
    (text) =>
      ask(
        creating(false, 4096).handler,
        'POST',
        Buffer.from(`[${text.replaceAll(/(?<=[}\]"\d])(?=[{["\d])/g, ',')}]`),
        1000,
      ),
  ),
}
