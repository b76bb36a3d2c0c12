import type { CallbackState } from './callback-state.js'
import type { TaskFailure, TaskProgress, TaskRecord } from './record.js'
import { toFaceText } from './record.js'
import type { TaskState } from './state.js'

/**
 * How a record lies in the store: one line that only longhaul reads, then the task face as it goes
 * over the wire. A poll needs the first line and sends the rest as it is, so the common answer parses
 * and writes no JSON of its own.
 */
export function encode(record: TaskRecord, face = toFaceText(record)): string {
  return `${encodeHead(record)}\n${face}`
}

/** The line that only longhaul reads. */
export function encodeHead(record: TaskRecord): string {
  const { state, version, attempt, createdAt, expiresAt, owner, errorStatus = 0, claim, slot, callback, holder, keeps } = record
  const held = holder === undefined && keeps === undefined ? '' : `,${textOr0(holder)}${keeps === undefined ? '' : `,${JSON.stringify(keeps)}`}`
  const told = callback !== undefined ? `,${JSON.stringify(callback)}` : held === '' ? '' : ',0'
  return `["${state}",${version},${attempt},${createdAt},${expiresAt},${textOr0(owner)},${errorStatus},${textOr0(claim)},${textOr0(slot)}${told}${held}]`
}

function textOr0(text: string | undefined): string {
  return text === undefined ? '0' : JSON.stringify(text)
}

/** 0 stands for what is not there. */
type Head = [
  state: TaskState, version: number, attempt: number, createdAt: number, expiresAt: number,
  owner: string | 0, errorStatus: number, claim: string | 0, slot: string | 0, callback?: CallbackState | 0, holder?: string | 0, keeps?: string,
]

/** The face's members that are needed to write the record again. */
interface FaceBody {
  task: string
  progress?: TaskProgress
  result?: unknown
  error?: TaskFailure
  startedAt?: string
  finishedAt?: string
}

/** A record as a reader sees it: the head at hand, the face as text. */
export interface TaskSnapshot {
  readonly id: string
  readonly state: TaskState
  readonly version: number
  readonly createdAt: number
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  /** The process that the work dies with, where the store outlives it. */
  readonly holder: string | undefined
  /** The task face as JSON text. */
  readonly face: string
}

function split(value: string): [Head, string] {
  const end = value.indexOf('\n')
  return [JSON.parse(value.slice(0, end)) as Head, value.slice(end + 1)]
}

/** Reads what a status answer needs. */
export function toSnapshot(id: string, value: string): TaskSnapshot {
  const [[state, version, , createdAt, expiresAt, owner, errorStatus, , , , holder], face] = split(value)
  return {
    id, state, version, createdAt, expiresAt, owner: owner === 0 ? undefined : owner, errorStatus: errorStatus || undefined,
    holder: holder || undefined, face,
  }
}

/** The snapshot of a record that this process has just written. */
export function snapshotOf(record: TaskRecord, face = toFaceText(record)): TaskSnapshot {
  const { id, state, version, createdAt, expiresAt, owner, errorStatus, holder } = record
  return { id, state, version, createdAt, expiresAt, owner, errorStatus, holder, face }
}

/** Reads all of it, to be changed and written again. */
export function decode(id: string, value: string): TaskRecord {
  const [head, face] = split(value)
  return toRecord(id, head, JSON.parse(face) as FaceBody)
}

/** Reads a record of which nothing but its beginning is known, from its first line. */
export function decodeNew(id: string, name: string, head: string): TaskRecord {
  return toRecord(id, JSON.parse(head) as Head, { task: name })
}

function toRecord(
  id: string, [state, version, attempt, createdAt, expiresAt, owner, errorStatus, claim, slot, callback, holder, keeps]: Head, body: FaceBody,
): TaskRecord {
  const record: TaskRecord = {
    id, name: body.task, state, version, attempt, createdAt, expiresAt,
    owner: owner === 0 ? undefined : owner,
    errorStatus: errorStatus || undefined,
    claim: claim || undefined,
    slot: slot || undefined,
    callback: callback || undefined,
    progress: body.progress,
    result: 'result' in body ? JSON.stringify(body.result) : undefined,
    error: body.error,
    startedAt: body.startedAt === undefined ? undefined : Date.parse(body.startedAt),
    finishedAt: body.finishedAt === undefined ? undefined : Date.parse(body.finishedAt),
  }
  return holder === undefined ? record : { ...record, holder: holder || undefined, keeps }
}
