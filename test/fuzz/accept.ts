import assert from 'node:assert/strict'
import fc from 'fast-check'
import Negotiator from 'negotiator'
import { negotiate, negotiateCoding, parseAccept, parseMediaType } from '../../src/http/headers/accept.js'
import { prefersProblem } from '../../src/http/respond.js'
import { checkJsonType } from '../../src/http/body/body.js'
import { members, TOKEN } from '../unit/http/list-grammar.js'
import { linear } from './frame/linear.js'
import { items } from './frame/list-reference.js'
import { mutated } from './frame/mutate.js'
import { outcome } from './frame/rule.js'

const ACCEPTS = [
  '*/*', 'application/json', 'text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8',
  'application/problem+json, application/json;q=0.5', 'application/*;q=0.2, application/x-ndjson',
  'text/event-stream', 'Application/Vnd.acme+json;version="2";q=.5',
  'application/json;charset=utf-8;q=1.000', '',
]
const CODINGS = [
  'gzip, deflate, br, zstd', 'gzip;q=1.0, identity;q=0.5, *;q=0', '*', 'identity', 'x-gzip',
  'br;q=0.001, gzip;q=0', '',
]
const TYPES = [
  'application/json', 'application/json; charset=utf-8', 'application/merge-patch+json',
  'text/plain;charset="UTF-8"', 'multipart/form-data; boundary=x', 'application/x-ndjson',
]
const PIECES = [
  'application/json', '*/*', 'text/*', ';q=', ';q=0', ';q=0.5', ', ', '; ', 'charset=utf-8', '="',
  '\\"', 'a/b', 'gzip', 'identity', '*', 'q',
]
const OFFERS = ['application/json', 'application/x-ndjson', 'text/event-stream']
const SERVED = ['br', 'gzip']

interface Range {
  readonly type: string
  readonly subtype: string
  readonly params: Record<string, string>
  readonly q: number
}

function weight(text: string | undefined): number | undefined {
  if (text === undefined) return 1
  return /^[01]?(?:\.\d*)?$/.test(text) && /\d/.test(text) && Number(text) <= 1 ? Number(text) : undefined
}

const TYPE = new RegExp(`^(${TOKEN}/${TOKEN})$`)

/** What the header means by the grammar of RFC 9110 alone. */
function reference(text: string): Range[] {
  return items(text, TYPE).flatMap(({ name, params: { q: written, ...params } }) => {
    const [type = '', subtype = ''] = name.toLowerCase().split('/')
    const weighed = weight(written)
    return weighed === undefined || (type === '*' && subtype !== '*') ? [] : [{ type, subtype, params, q: weighed }]
  })
}

const q = fc.constantFrom('', ';q=1', ';q=0', ';q=0.5', ';q=0.25', ';q=0.999')
/** What both mean the same by: ranges without parameters. */
const sound = fc.array(fc.tuple(fc.constantFrom('*/*', 'application/*', 'text/*', ...OFFERS, 'image/png'), q), {
  minLength: 1,
  maxLength: 5,
})
const soundCodings = fc.array(fc.tuple(fc.constantFrom('br', 'gzip', 'deflate', 'identity', '*'), q), {
  minLength: 1,
  maxLength: 5,
})
const named = <T extends readonly [string, string]>(list: readonly T[]): string =>
  list
    .filter(([name], at) => list.findIndex(([other]) => other === name) === at)
    .map((one) => one.join(''))
    .join(', ')

/** How much each is wanted, by section 12.5.1: the most specific range counts. */
function wanted(header: string, offer: string): number {
  const found = reference(header)
  const [type = ''] = offer.split('/')
  const of = (name: string): Range | undefined => found.find((range) => `${range.type}/${range.subtype}` === name)
  return (of(offer) ?? of(`${type}/*`) ?? of('*/*'))?.q ?? 0
}

export const rules = {
  'says what the grammar says': fc.property(mutated(ACCEPTS, PIECES), (text) => {
    const found = parseAccept(text).map(({ type, subtype, params, q: weighed }) => ({
      type,
      subtype,
      params: Object.fromEntries(params),
      q: weighed,
    }))
    assert.deepEqual(found, reference(text))
  }),
  'chooses among offers, or none': fc.property(mutated(ACCEPTS, PIECES), (text) => {
    const chosen = negotiate(text, OFFERS)
    assert.ok(chosen === undefined || OFFERS.includes(chosen))
    assert.equal(typeof prefersProblem(text), 'boolean')
  }),
  'chooses as negotiator does': fc.property(sound, (list) => {
    const header = named(list)
    const theirs = new Negotiator({ headers: { accept: header } }).mediaTypes([...OFFERS])
    const ours = negotiate(header, OFFERS)
    assert.equal(ours === undefined, theirs.length === 0)
    // Of equals negotiator goes by the order of the field, we by how specific the range is.
    if (ours !== undefined) assert.equal(wanted(header, ours), wanted(header, theirs[0] as string))
  }),
  'chooses codings as negotiator does': fc.property(soundCodings, (list) => {
    const header = named(list)
    const theirs = new Negotiator({ headers: { 'accept-encoding': header } }).encodings([...SERVED, 'identity'])
    const ours = negotiateCoding(header, SERVED)
    const q = (coding: string): number =>
      Number(
        /;q=(.*)/.exec(
          list.find(([name]) => name === coding)?.join('') ?? list.find(([name]) => name === '*')?.join('') ?? '',
        )?.[1] ?? 1,
      )
    assert.equal(ours === undefined, theirs.length === 0)
    if (ours !== undefined && theirs[0] !== 'identity' && ours !== 'identity')
      assert.equal(q(ours), q(theirs[0] as string))
  }),
  'gives a coding, identity or nothing': fc.property(mutated(CODINGS, PIECES), (text) => {
    assert.ok([...SERVED, 'identity', undefined].includes(negotiateCoding(text, SERVED)))
  }),
  'reads a Content-Type, or refuses it': fc.property(mutated(TYPES, PIECES), (text) => {
    const found = parseMediaType(text)
    const [only, ...more] = members(text).length === 1 ? items(text, TYPE) : []
    assert.equal(found?.type, more.length === 0 ? only?.name.toLowerCase() : undefined)
    if (found !== undefined) assert.deepEqual(Object.fromEntries(found.params), only?.params)
    const told = outcome(() => { checkJsonType({ 'content-type': text }) })
    if ('refused' in told) assert.equal(told.refused.code, 'unsupported_media_type')
    else assert.match(found?.type ?? '', /^application\/json$|\+json$/)
  }),
  'takes linear time': linear([...PIECES, '"', '\\', ',', ';', ' ', '\u0001', 'a/', '/'], (text) => {
    negotiate(text, OFFERS)
    prefersProblem(text)
    negotiateCoding(text, SERVED)
    parseMediaType(text)
  }),
}
