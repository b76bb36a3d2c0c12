import { isWholeNumber } from '../http/body/json.js'
import { httpError } from '../http/errors.js'
import { oneOf } from '../runtime/text.js'
import type { Blobs } from '../stores/blobs.js'
import type { Retry } from '../stores/calls.js'

/**
 * Parts of a text, in their order: the parts `first` to `end - 1` that each run has written. A task
 * keeps the list in its checkpoint.
 */
export type PartList = readonly (readonly [run: number, first: number, end: number])[]

/** Number of parts that are deleted or renewed at the same time. */
const CONCURRENCY = 16

/**
 * Stores a text that a task writes in several runs, as blobs beside the spooled body of the task.
 */
export class KeptParts {
  list: PartList = []
  /** Number of parts that this run has written. */
  private written = 0

  constructor(
    private readonly blobs: Blobs, private readonly blob: string, private readonly run: number,
    private readonly ttlMs: number, private readonly retry: Retry,
  ) {}

  /** Stores a text as the next part. */
  async add(text: string): Promise<void> {
    const { blobs, blob, run, ttlMs, list } = this
    await this.retry(async () => {
      if (this.written === 0) await this.addRun()
      await blobs.put(partKey(blob, run, this.written), oneOf(Buffer.from(text)), { ttlMs })
    })
    const last = list.at(-1)
    const end = ++this.written
    const continues = last !== undefined && last[0] === run && last[2] === end - 1
    this.list = continues
      ? [...list.slice(0, -1), [run, last[1], end]]
      : [...list, [run, end - 1, end]]
  }

  /** Reads the text of all parts. */
  async* read(): AsyncGenerator<Uint8Array, void, undefined> {
    const { blobs, blob } = this
    for (const [run, first, end] of this.list) {
      for (let part = first; part < end; part++) {
        const bytes = await blobs.open(partKey(blob, run, part))
        if (bytes === undefined) throw httpError('gone', { message: 'Part of the report is gone.' })
        yield* bytes
      }
    }
  }

  /** Notes that this run writes parts, so that they are found when the task ends. */
  private async addRun(): Promise<void> {
    const { blobs, blob, run, ttlMs } = this
    const runs = await runsOf(blobs, blob)
    if (runs.includes(run)) return
    await blobs.put(runsKey(blob), oneOf(Buffer.from(JSON.stringify([...runs, run]))), { ttlMs })
  }
}

export function deleteParts(blobs: Blobs, blob: string): Promise<void> {
  return changeParts(blobs, blob, (key) => blobs.delete(key))
}

/** Renews the parts of all runs of a task, for a retry. */
export function renewParts(blobs: Blobs, blob: string, ttlMs: number): Promise<void> {
  return changeParts(blobs, blob, async (key) => await blobs.renew(key, ttlMs) !== undefined)
}

/** Calls `change` for the parts of each run, until it returns false because there is none. */
async function changeParts(
  blobs: Blobs, blob: string, change: (key: string) => Promise<boolean>,
): Promise<void> {
  const runs = await runsOf(blobs, blob)
  for (const run of runs) {
    for (let part = 0, more = true; more; part += CONCURRENCY) {
      const keys = Array.from({ length: CONCURRENCY }, (_, at) => partKey(blob, run, part + at))
      more = (await Promise.all(keys.map(change))).every(Boolean)
    }
  }
  if (runs.length > 0) await change(runsKey(blob))
}

export function isPartList(value: unknown): value is PartList {
  return Array.isArray(value) && value.every((each) => (
    Array.isArray(each) && each.length === 3 && each.every(isWholeNumber)
  ))
}

async function runsOf(blobs: Blobs, blob: string): Promise<number[]> {
  const bytes = await blobs.open(runsKey(blob))
  return bytes === undefined ? [] : JSON.parse(await textOf(bytes)) as number[]
}

/** Reads bytes as text. */
export async function textOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const piece of bytes) text += decoder.decode(piece, { stream: true })
  return text + decoder.decode()
}

function runsKey(blob: string): string {
  return `${blob}.parts`
}

function partKey(blob: string, run: number, part: number): string {
  return `${blob}.part.${run}.${part}`
}
