import type { Piece } from '../http/body/encode.js'
import type { LineText } from './line-text.js'
import { Turns } from '../runtime/turns.js'

/**
 * Records that are at hand, as pieces of some 64 KiB. Others get a turn at least every 10 ms or so.
 */
export async function* syncPieces<T>(source: Iterable<T | readonly T[]>, text: LineText<T>): AsyncGenerator<Piece, void, undefined> {
  const turns = new Turns()
  for (const item of source) {
    // Not through a generator of single records, which would cost as much again as writing one.
    if (!isList(item)) text.add(item)
    else {
      for (const record of item) {
        text.add(record)
        if (!text.full) continue
        yield { bytes: text.take(), flush: false }
        if (turns.due) await turns.next()
      }
    }
    if (!text.full) continue
    yield { bytes: text.take(), flush: false }
    if (turns.due) await turns.next()
  }
  text.end()
  if (!text.empty) yield { bytes: text.take(), flush: false }
}

/** Whether it is several records: a record itself is never an array. */
export function isList<T>(item: T | readonly T[]): item is readonly T[] {
  return Array.isArray(item)
}
