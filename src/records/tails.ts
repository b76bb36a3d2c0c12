import type { Blobs } from '../stores/blobs.js'
import { partKey, type PartList, type PartRange } from '../stores/parts.js'

/*
 * A run that ends early cannot add to the list of parts of its task. The parts that it writes behind
 * the list are its tail: they follow its last part in the list, or begin with its part 0.
 */

/** Number of last runs whose tails are found and deleted. */
const MAX_RUNS = 10

/** Returns the tail of the newest run that has one, if it continues the list. */
export async function findTail(
  blobs: Blobs, base: string, list: PartList, lastRun: number,
): Promise<PartList> {
  const newest = Number(list.at(-1)?.[0] ?? 1)
  for (let run = lastRun; run >= newest && run > lastRun - MAX_RUNS; run--) {
    const first = firstOf(list, run)
    let [end, bytes] = [first, 0]
    for (let info; (info = await blobs.stat(partKey(base, run, end))) !== undefined; end++) {
      bytes += info.size
    }
    if (end > first) return [[run, first, end, bytes]]
  }
  return []
}

/** Deletes the tails of the runs up to `lastRun`. Never rejects, because they expire. */
export async function deleteTails(
  blobs: Blobs, base: string, list: PartList, lastRun: number,
): Promise<void> {
  for (let run = lastRun; run > 0 && run > lastRun - MAX_RUNS; run--) {
    let part = firstOf(list, run)
    while (await blobs.delete(partKey(base, run, part)).catch(() => false)) part++
  }
}

function firstOf(list: PartList, run: number): number {
  const range = list.findLast(([writer]: PartRange) => writer === run)
  return range?.[2] ?? 0
}
