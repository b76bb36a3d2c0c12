import { deleteBlobs, renewBlobs } from './blob-rules.js'
import type { Blobs } from './blobs.js'

/**
 * Parts of one text or body, in their order. A range names the parts `first` to `end - 1` of one
 * writer, such as a run of a task, and the bytes of all of them. A writer numbers its parts from 0,
 * and no other writer has its name, so nobody replaces a part of another one.
 */
export type PartList = readonly PartRange[]
export type PartRange = readonly [
  writer: string | number, first: number, end: number, bytes: number,
]

/** Returns the list with one more part, which is the last one. */
export function withPart(
  list: PartList, writer: string | number, part: number, bytes: number,
): PartList {
  const last = list.at(-1)
  return last?.[0] === writer && last[2] === part
    ? [...list.slice(0, -1), [writer, last[1], part + 1, last[3] + bytes]]
    : [...list, [writer, part, part + 1, bytes]]
}

export function partKey(base: string, writer: string | number, part: number): string {
  return `${base}/${writer}/${part}`
}

export function partKeys(base: string, list: PartList): readonly string[] {
  return list.flatMap(([writer, first, end]) => (
    Array.from({ length: end - first }, (_, at) => partKey(base, writer, first + at))
  ))
}

/** Returns the size of all parts in bytes. */
export function partBytes(list: PartList): number {
  return list.reduce((sum, [, , , bytes]) => sum + bytes, 0)
}

/** Deletes parts. Never rejects, because they expire. */
export function deleteParts(blobs: Blobs, base: string, list: PartList): Promise<void> {
  return deleteBlobs(blobs, partKeys(base, list))
}

export async function renewParts(
  blobs: Blobs, base: string, list: PartList, ttlMs: number,
): Promise<void> {
  await renewBlobs(blobs, partKeys(base, list), ttlMs)
}

/** Yields the bytes of parts from `start` on. Throws the error of `gone` if a part does not exist. */
export async function* readParts(
  blobs: Blobs, keys: readonly string[], gone: () => Error, start = 0,
): AsyncGenerator<Uint8Array, void, undefined> {
  let skipped = start
  for (const key of keys) {
    if (skipped > 0) {
      const { size } = await blobs.stat(key) ?? { size: 0 }
      if (size <= skipped) {
        skipped -= size
        continue
      }
    }
    const bytes = await blobs.open(key, skipped === 0 ? undefined : { start: skipped })
    if (bytes === undefined) throw gone()
    skipped = 0
    yield* bytes
  }
}
