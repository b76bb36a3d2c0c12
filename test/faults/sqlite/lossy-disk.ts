// What a disk keeps in a power failure, from the system calls of a process.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

interface Write {
  readonly at: number
  readonly bytes: Buffer
}

/** A file: what was synced, and the writes since then, in their order. A truncation is a write of nothing. */
interface File {
  synced: Buffer
  pending: Write[]
}

/** The files of a process at one moment, and what it had printed. */
export interface Moment {
  readonly printed: string
  /** Returns a file with what was synced, and those of the later writes that `isKept` selects. */
  contentOf(path: string, isKept: () => boolean): Buffer
}

/** Returns the calls of the thread that opened a file, from the records of `strace -ff`. */
export function callsOf(folder: string, path: string): string[] {
  for (const name of readdirSync(folder)) {
    const text = readFileSync(join(folder, name), 'utf8')
    if (text.includes(hex(path))) return text.split('\n')
  }
  throw new Error(`No thread has opened ${path}`)
}

/** Reads calls in their order, and calls `look` before each sync and after each line that the process prints. */
export function replay(calls: readonly string[], look: (moment: Moment) => void): void {
  const files = new Map<string, File>()
  const open = new Map<string, File>()
  let printed = ''
  const moment = (): Moment => ({
    printed,
    contentOf: (path, isKept) => {
      const { synced, pending } = files.get(path) ?? { synced: Buffer.alloc(0), pending: [] }
      return pending.filter(isKept).reduce(written, synced)
    },
  })
  for (const call of calls) {
    const [, name = '', fd = '', text = '', numbers = '', result = ''] = CALL.exec(call) ?? []
    const file = open.get(fd)
    if (name === 'openat' && Number(result) >= 0) {
      const path = unhex(text).toString()
      const opened = files.get(path) ?? { synced: Buffer.alloc(0), pending: [] }
      files.set(path, opened)
      open.set(result, opened)
    } else if (name === 'close') {
      open.delete(fd)
    } else if (name === 'write' && fd === '1') {
      printed += unhex(text).toString()
      look(moment())
    } else if (name === 'pwrite64') {
      file?.pending.push({ at: Number(numbers.split(', ')[1]), bytes: unhex(text) })
    } else if (name === 'ftruncate') {
      file?.pending.push({ at: Number(numbers), bytes: Buffer.alloc(0) })
    } else if ((name === 'fsync' || name === 'fdatasync') && file) {
      look(moment())
      file.synced = file.pending.reduce(written, file.synced)
      file.pending = []
    }
  }
}

/** Name, descriptor, text, numbers and result of a call. */
const CALL = /^(\w+)\((?:AT_FDCWD|(\d+))(?:, )?(?:"((?:\\x[0-9a-f]{2})*)")?(?:, )?([\d, ]*)[^)]*\)\s+= (-?\d+)/

function written(before: Buffer, { at, bytes }: Write): Buffer {
  if (bytes.length === 0) return Buffer.concat([before.subarray(0, at), Buffer.alloc(Math.max(at - before.length, 0))])
  const after = Buffer.alloc(Math.max(before.length, at + bytes.length))
  before.copy(after)
  bytes.copy(after, at)
  return after
}

function hex(text: string): string {
  return Buffer.from(text).toString('hex').replace(/../g, '\\x$&')
}

function unhex(text: string): Buffer {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex')
}
