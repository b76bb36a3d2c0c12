import { randomBytes, randomUUID } from 'node:crypto'
import type { ReplaceOptions, Store } from '../stores/store.js'
import { StoredRecord } from '../stores/stored-record.js'

/** Older partial results, in a separate entry that is written once. */
export interface LogPart {
  /** Random id, so that no other run takes this part for its own. */
  readonly id: string
  /** Number of the first result. */
  readonly first: number
  readonly count: number
  readonly bytes: number
}

/** Results that one run has written. */
interface Writing {
  /** Random id, which `clear` replaces. */
  readonly id: string
  /** Number of the first result. */
  readonly first: number
}

/** Entry of a task. It has the newest results, and names the parts with the older ones. */
export interface Log {
  /** Number of the attempt that may write. */
  readonly attempt: number
  /**
   * Id of the run that may write. The number of the attempt is not enough: a run that is given back
   * and its successor share the number.
   */
  readonly writer: string
  /**
   * The runs that have written the numbers. If the store has lost some of them, the next run writes
   * these numbers again.
   */
  readonly writings: readonly Writing[]
  readonly parts: readonly LogPart[]
  /** Number of the first result of `tail`, from 1. */
  readonly first: number
  /** The newest results, as JSON. */
  readonly tail: readonly string[]
}

/** A task that has partial results. */
export interface TaskOfLog {
  readonly id: string
  /**
   * Name of its external resource, which distinguishes the task from an earlier task with the same
   * id.
   */
  readonly external: string | undefined
}

const RESOURCE = 'partial-'
/** Returns a name for the external resource of a task. It is random, because the id of a deleted task may be used again. */
export const newResource = (): string => `${RESOURCE}${randomUUID()}`
/** False for a task of a definition with another external resource, or with none. */
export const hasLog = ({ external }: TaskOfLog): boolean => external?.startsWith(RESOURCE) === true
/** Returns the key of the entry that changes with each write. */
export const logKey = ({ id, external }: TaskOfLog): string => `partial/${id}/${external}`
export const logPartKey = (task: TaskOfLog, { id }: LogPart): string => `${logKey(task)}/${id}`
export const newId = (): string => randomBytes(4).toString('hex')
/** Returns a log without results. */
export const emptyLog = () => ({ writings: [{ id: newId(), first: 1 }], parts: [], first: 1, tail: [] })

/** Returns the id of the writing that has a number, if it is known. */
export function writingOf({ writings }: Pick<Log, 'writings'>, number: number): string | undefined {
  return writings.findLast(({ first }) => first <= Math.max(number, 1))?.id
}

/** A line of JSON for the log, and one for each result. JSON contains no line break. */
function encode({ tail, ...head }: Log): string {
  return [JSON.stringify(head), ...tail].join('\n')
}

function decode(text: string): Log {
  const [head = '', ...tail] = text.split('\n')
  return { ...JSON.parse(head) as Omit<Log, 'tail'>, tail }
}

/** @param options - options of a write; a caller that only reads passes none */
export function logRecord(
  store: Store, task: TaskOfLog, options: ReplaceOptions = {},
): StoredRecord<Log> {
  return new StoredRecord(store, logKey(task), { encode, decode, options: () => options })
}

/** Deletes all partial results of a task. */
export async function removeAll(store: Store, task: TaskOfLog): Promise<void> {
  const log = await logRecord(store, task).read()
  if (!log) return
  await store.delete(logKey(task))
  await deleteLogParts(store, task, log.parts)
}

/** Never rejects, because they expire. */
export async function deleteLogParts(store: Store, task: TaskOfLog, parts: readonly LogPart[]): Promise<void> {
  await Promise.all(parts.map(async (part) => store.delete(logPartKey(task, part)))).catch(() => undefined)
}
