// What is written into fields, and what clients of ours read from them.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { EventReader } from '../../src/client/follow.js'
import { parseRetryAfter } from '../../src/client/send.js'
import { contentDisposition } from '../../src/content/response.js'
import { addVary } from '../../src/http/respond.js'
import { isHeaderValue } from '../../src/http/headers/reader.js'
import { linkValue } from '../../src/http/headers/link.js'
import type { ResponseHeaders } from '../../src/http/exchange.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'

const NAMES = [
  'report.pdf', 'naïve €.txt', 'a"b\\c.txt', '../../etc/passwd', 'C:\\temp\\x', '%41.txt',
  'a\r\nX-Evil: 1', '\u202etxt.exe', '😀',
]
const TARGETS = ['/users?start=0', 'https://example.com/a b', '/a>; rel="evil', '/é', '/%', '\r\nX: y']
const EVENTS = [
  'id: 1\ndata: {"a":1}\n\n', 'data: a\ndata: b\n\n: comment\n\n', 'event: x\r\ndata: y\r\n\r\n',
  'id\ndata\n\n', 'retry: 5\ndata:x\n\n', 'data: a\rdata: b\r\r',
]
const PIECES = ['"', '\\', '\r', '\n', '\r\n', 'data: ', 'id: ', ':', '%', "''", '*', ';', '>', '<', '\0', 'é', '😀']

/** A quoted string, unquoted. */
const unquoted = (text: string): string => text.replaceAll(/\\(.)/g, '$1')

/** One line at a time, by the standard. */
function events(text: string): { readonly id: string; readonly data: string }[] {
  const found: { id: string; data: string }[] = []
  let data: string[] = []
  let id = ''
  // The last line has no end yet, so it counts for nothing.
  const lines = text.replaceAll('\r\n', '\n').replaceAll('\r', '\n').split('\n').slice(0, -1)
  for (const line of lines) {
    if (line === '') {
      if (data.length > 0) found.push({ id, data: data.join('\n') })
      data = []
      continue
    }
    const [, name = '', value = ''] = /^([^:]*):? ?([^]*)$/.exec(line.includes(':') ? line : `${line}:`) ?? []
    if (name === 'data') data.push(value)
    else if (name === 'id' && !value.includes('\0')) id = value
  }
  return found
}

export const rules = {
  'a link is one line, whose parts are those that went in': fc.property(
    mutated(TARGETS, PIECES),
    mutated(NAMES, PIECES),
    (target, title) => {
      const value = linkValue([{ target, rel: 'next', title }])
      assert.ok(isHeaderValue(value))
      const [, at = '', quoted, encoded] =
        /^<([!-~]*?)>; rel="next"; title(?:="((?:[^"\\]|\\.)*)"|\*=UTF-8''([!-~]*))$/.exec(value) ?? []
      assert.ok(!/[<>"]/.test(at), value)
      assert.equal(quoted === undefined ? decodeURIComponent(encoded ?? '') : unquoted(quoted), title.toWellFormed())
    },
  ),
  'a file name is one line, without a path': fc.property(
    mutated(NAMES, PIECES),
    fc.constantFrom('inline' as const, 'attachment' as const),
    (name, kind) => {
      const value = contentDisposition(kind, name)
      assert.ok(isHeaderValue(value))
      const [, quoted, encoded] =
        new RegExp(`^${kind}(?:; filename="((?:[^"\\\\]|\\\\.)*)"(?:; filename\\*=UTF-8''([!-~]+))?)?$`).exec(value) ??
        assert.fail(value)
      for (const read of [quoted === undefined ? '' : unquoted(quoted), decodeURIComponent(encoded ?? '')])
        assert.doesNotMatch(read, /[/\\\p{Cc}]/u)
    },
  ),
  'Vary stays one list without doubles': fc.property(
    fc.array(
      mutated(['Accept', 'prefer, accept', '*', 'Origin,,'], [',', ' ', 'Accept']).map((text) =>
        text.replaceAll(/[^!-~ ]/g, ''),
      ),
      { maxLength: 4 },
    ),
    (lists) => {
      const headers: ResponseHeaders = {}
      for (const list of lists) {
        if (list.trim() !== '')
          addVary(
            headers,
            ...list
              .split(',')
              .map((name) => name.trim())
              .filter((name) => name !== ''),
          )
      }
      const names = ((headers['vary'] ?? '') as string)
        .split(',')
        .map((name) => name.trim().toLowerCase())
        .filter((name) => name !== '')
      if (lists.length > 1) assert.ok(names.length <= 1 || !names.includes('*'))
    },
  ),
  'events are read by the standard, however they are cut': fc.property(
    mutated(EVENTS, PIECES),
    fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
    (text, cuts) => {
      const reader = new EventReader(1_000_000)
      const found: unknown[] = []
      for (let at = 0, turn = 0; at < text.length; turn++) {
        const size = cuts[turn % cuts.length] as number
        found.push(...reader.read(text.slice(at, at + size)))
        at += size
      }
      // A CR at the very end may be the first half of a CRLF, or not: either way its line has ended.
      assert.deepEqual(found, events(text))
    },
  ),
  'Retry-After is a time from now, or nothing': fc.property(
    mutated(['120', '0', 'Sun, 06 Nov 2094 08:49:37 GMT', '-1', '1.5', '1e3', '99999999999'], ['0', 'GMT', ' ']),
    (text) => {
      const seconds = parseRetryAfter(text)
      assert.ok(seconds === undefined || (Number.isSafeInteger(seconds) && seconds >= 0))
    },
  ),
  'takes linear time': linear([...PIECES, 'a', ' ', '\n\n'], (text) => {
    linkValue([{ target: text, rel: 'next', title: text }])
    contentDisposition('inline', text)
    parseRetryAfter(text)
    const reader = new EventReader(10_000_000)
    for (let at = 0; at < text.length; at += 500) reader.read(text.slice(at, at + 500))
  }),
}
