import { Buffer } from 'node:buffer'
import { Turns } from '../../runtime/timers.js'
import type { FileContent, TaskFiles, WriteFileOptions } from './run-context.js'
import { isHeaderValue } from '../../http/headers/reader.js'
import { parseMediaType } from '../../http/headers/accept.js'
import { readOptions, value, type OptionTable } from '../../runtime/options.js'

/** Length up to which strings are collected before they are written, in UTF-16 units. */
const PIECE_UNITS = 65_536

/** Yields the bytes of a file. Yields to the event loop, because the source may be synchronous. */
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

/**
 * Strings and bytes are iterable too. As iterables they would be written one character or byte at a
 * time.
 */
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

/** Maximum length of a file name, in UTF-16 units. */
const MAX_NAME_LENGTH = 128
const MAX_TYPE_LENGTH = 255

/** Letters, digits, marks, punctuation and symbols of any script, and the space. */
const CHARACTERS = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$/u
/** Characters that file systems reject, or that separate folders. */
const FORBIDDEN = /[/\\:*?"<>|]|^[. ]|[. ]$/

/** @throws {TypeError} A common file system would reject the name. */
export function checkFileName(name: string): void {
  const isName = typeof name === 'string' && name.length <= MAX_NAME_LENGTH
    && CHARACTERS.test(name) && !FORBIDDEN.test(name)
  if (isName) return
  throw new TypeError(
    `files.write: ${JSON.stringify(name)} is not a file name: 1 to 128 letters, digits, spaces and `
    + 'punctuation, none of / \\ : * ? " < > |, and no dot or space at either end',
  )
}

const isFileType = (given: unknown): boolean => (
  typeof given === 'string' && given.length <= MAX_TYPE_LENGTH
    && isHeaderValue(given) && parseMediaType(given) !== undefined
)
const WRITE_FILE = {
  type: value(`a media type such as text/csv, of at most ${MAX_TYPE_LENGTH} characters`, isFileType, {
    default: 'application/octet-stream',
  }),
} satisfies OptionTable<WriteFileOptions>

export function fileTypeOf(name: string, options: WriteFileOptions): string {
  checkFileName(name)
  return readOptions('files.write', options, WRITE_FILE).type
}

/** For runs whose definition does not have `files: true`. */
export const NO_FILES: TaskFiles = {
  write: async () => {
    throw new TypeError('files.write: set files: true in the options of defineTask')
  },
}
