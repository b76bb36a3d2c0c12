import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { EventReader, type ServerEvent } from '../../../src/client/follow.js'

const read = (pieces: readonly string[], maxUnits = 1000): ServerEvent[] => {
  const reader = new EventReader(maxUnits)
  return pieces.flatMap((piece) => reader.read(piece))
}

describe('a reader of server-sent events', () => {
  test('reads fields, comments, several lines of data, and ids that stay valid', () => {
    assert.deepEqual(
      read([
        ': hello\nid: 1\ndata: a\ndata:b\nevent: x\nretry: 5\n\n', 'data\n\n', 'nothing: here\n\n',
        'id\ndata: c\n\n', 'data: cut off\n',
      ]),
      [
        { id: '1', data: 'a\nb' },
        { id: '1', data: '' },
        { id: '', data: 'c' },
      ],
    )
  })

  test('ends a line at LF, CR or CRLF', () => {
    for (const end of ['\n', '\r', '\r\n'])
      assert.deepEqual(read([['id: 1', 'data: a', 'data: c', '', 'data: b', '', ''].join(end)]), [
        { id: '1', data: 'a\nc' },
        { id: '1', data: 'b' },
      ])
  })

  test('reads the same events for any division of the bytes', () => {
    const line = fc.constantFrom('data: a', 'data', 'data:  b', 'id: 7', 'id', ': c', 'x', '', '')
    fc.assert(
      fc.property(
        fc.array(fc.tuple(line, fc.constantFrom('\n', '\r', '\r\n')), { maxLength: 20 }),
        fc.array(fc.nat(6)),
        (lines, cuts) => {
          const text = lines.flat().join('')
          const pieces: string[] = []
          let at = 0
          for (const cut of cuts) {
            pieces.push(text.slice(at, at + cut))
            at += cut
          }
          assert.deepEqual(read([...pieces, text.slice(at)]), read([text]))
        },
      ),
      { numRuns: 500 },
    )
  })

  test('rejects an endless event, and reads many short ones', () => {
    assert.throws(() => read(Array(200).fill('aaaaaa')), { code: 'answer_too_large' })
    assert.throws(() => read(Array(300).fill('data: aaaa\n')), { code: 'answer_too_large' })
    assert.equal(read(Array(500).fill('data: a\n\n')).length, 500)
    assert.equal(read(Array(500).fill(': comment\n')).length, 0)
  })
})
