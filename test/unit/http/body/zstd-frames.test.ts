import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ZstdFrames } from '../../../../src/http/body/zlib.js'

const hex = (text: string): Uint8Array => Buffer.from(text.replaceAll(' ', ''), 'hex')

/** Where a text may end, told byte by byte. */
function ends(text: Uint8Array): number[] {
  const frames = new ZstdFrames()
  const found = frames.complete ? [0] : []
  text.forEach((byte, at) => {
    frames.push(Uint8Array.of(byte))
    if (frames.complete) found.push(at + 1)
  })
  return found
}

function pushAll(frames: ZstdFrames, text: Uint8Array): void {
  for (let rest = text; rest.length > 0;) rest = rest.subarray(frames.push(rest))
}

// Made by zstd and by hand from RFC 8878: frames with each form of header and block.
const FRAMES: Record<string, Uint8Array> = {
  'a single segment with a checksum': hex('28b52ffd 24 05 290000 68656c6c6f 00000000'),
  'a window, no content size': hex('28b52ffd 00 58 290000 68656c6c6f'),
  'an empty last block': hex('28b52ffd 00 58 280000 68656c6c6f 010000'),
  'a run of one byte': hex('28b52ffd 20 64 230300 61'),
  'all of the header: a dictionary of 4 bytes, a size of 8': hex(
    '28b52ffd c3 58 01000000 0500000000000000 290000 68656c6c6f',
  ),
  'dictionaries of 1 and 2 bytes, sizes of 2 and 4': hex('28b52ffd 41 58 01 0000 010000'),
  'a size of 4': hex('28b52ffd 82 58 0100 00000000 010000'),
  'a skippable one': hex('552a4d18 03000000 ffffff'),
  'an empty skippable one': hex('502a4d18 00000000'),
}

describe('ZstdFrames', () => {
  for (const [name, frame] of Object.entries(FRAMES)) {
    test(name, () => { assert.deepEqual(ends(frame), [0, frame.length]) })
  }

  test('reads several frames, in one piece and cut at every place', () => {
    const all = Object.values(FRAMES)
    const text = Buffer.concat(all)
    const expected = all.reduce((places, frame) => [...places, (places.at(-1) ?? 0) + frame.length], [0])
    assert.deepEqual(ends(text), expected)
    for (let cut = 0; cut <= text.length; cut++) {
      const frames = new ZstdFrames()
      pushAll(frames, text.subarray(0, cut))
      assert.equal(frames.complete, expected.includes(cut), `at ${cut}`)
      pushAll(frames, text.subarray(cut))
      assert.equal(frames.complete, true, `all, cut at ${cut}`)
    }
  })

  test('reads up to the end of a frame, and returns the size of its window', () => {
    const windows: Record<string, number> = {}
    for (const [name, frame] of Object.entries(FRAMES)) {
      const frames = new ZstdFrames()
      assert.equal(frames.push(Buffer.concat([frame, frame])), frame.length, name)
      windows[name] = frames.window
    }
    assert.deepEqual(windows, {
      'a single segment with a checksum': 5,
      'a window, no content size': 2 ** 21,
      'an empty last block': 2 ** 21,
      'a run of one byte': 100,
      'all of the header: a dictionary of 4 bytes, a size of 8': 2 ** 21,
      'dictionaries of 1 and 2 bytes, sizes of 2 and 4': 2 ** 21,
      'a size of 4': 2 ** 21,
      'a skippable one': 0,
      'an empty skippable one': 0,
    })
  })

  test('reads frames of all kinds in any order', () => {
    for (const [name, first] of Object.entries(FRAMES)) {
      for (const [after, second] of Object.entries(FRAMES)) {
        assert.deepEqual(
          ends(Buffer.concat([first, second])),
          [0, first.length, first.length + second.length],
          `${after} behind ${name}`,
        )
      }
    }
  })

  test('never accepts other data as complete', () => {
    assert.deepEqual(ends(Buffer.from('{"not":"zstd"}, and more of it, long enough for a block')), [0])
  })
})
