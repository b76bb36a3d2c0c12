import { Buffer } from 'node:buffer'
import { Turns } from '../../runtime/timers.js'
import type { FileContent } from './files.js'

/** Text is collected up to this length before it is written, in UTF-16 units. */
const PIECE_UNITS = 65_536

/**
 * Yields the bytes of a file. Collects short texts into pieces. Yields to the event loop, so that a
 * synchronous source does not block the process.
 */
export async function* fileBytes(
  content: FileContent,
): AsyncGenerator<Uint8Array, void, undefined> {
  const turns = new Turns()
  let text = ''
  for await (const piece of pieces(content)) {
    if (typeof piece === 'string') {
      text += piece
      if (text.length < PIECE_UNITS) continue
    }
    if (text !== '') yield Buffer.from(text)
    text = ''
    if (piece instanceof Uint8Array) yield piece
    else if (typeof piece !== 'string') throw noContent()
    if (turns.due) await turns.next()
  }
  if (text !== '') yield Buffer.from(text)
}

/** A text and bytes are iterable too, and would be written one character or byte at a time. */
function pieces(
  content: FileContent,
): Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string> {
  if (typeof content === 'string' || content instanceof Uint8Array) return [content]
  if (Symbol.asyncIterator in Object(content) || Symbol.iterator in Object(content)) return content
  throw noContent()
}

function noContent(): TypeError {
  return new TypeError('files.write: content must be text, bytes, or an iterable of these')
}
