import type { Piece } from '../http/body/encode.js'
import { Turns } from '../runtime/timers.js'
import { isList, type RecordText } from './record-text.js'

/**
 * Serialises records of a synchronous source into pieces of about 64 KiB. Yields to the event loop
 * at least every 10 ms or so.
 */
export async function* syncPieces<T>(
  source: Iterable<T | readonly T[]>, text: RecordText<T>,
): AsyncGenerator<Piece, void, undefined> {
  const turns = new Turns()
  for (const item of source) {
    // Lists are not flattened by a generator, because that costs as much as the serialisation.
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
  if (text.units > 0) yield { bytes: text.take(), flush: false }
}
