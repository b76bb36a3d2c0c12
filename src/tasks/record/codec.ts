import { type TaskFailure, type TaskProgress, type TaskRecord, toFaceText } from './record.js'
import type { TaskState } from './state.js'

/**
 * How a record lies in the store: one line that only longhaul reads, then the task face as it goes
 * over the wire. A poll needs the first line and sends the rest as it is, so the common answer
 * parses and writes no JSON of its own. While the task waits for its first run there may be a third
 * line: what its job needs should that be lost.
 */
export function encode(record: TaskRecord, face = toFaceText(record)): string {
  const text = `${encodeHead(record)}\n${face}`
  return record.work === undefined ? text : `${text}\n${record.work}`
}

/** The line that only longhaul reads. */
export function encodeHead(record: TaskRecord): string {
  const { state, version, attempt, createdAt, expiresAt, owner, errorStatus = 0, claim, slot, job } = record
  const times = `${version},${attempt},${createdAt},${expiresAt}`
  return `["${state}",${times},${textOr0(owner)},${errorStatus},${textOr0(claim)},${textOr0(slot)},"${job}"${rare(record)}]`
}

function rare({ callback, holder, keeps, startAt }: TaskRecord): string {
  if ((callback ?? holder ?? keeps ?? startAt) === undefined) return ''
  return `,${JSON.stringify({ callback, holder, keeps, startAt } satisfies Rare)}`
}

function textOr0(text: string | undefined): string {
  return text === undefined ? '0' : JSON.stringify(text)
}

/** 0 stands for what is not there. */
type Head = [
  state: TaskState, version: number, attempt: number, createdAt: number, expiresAt: number,
  owner: string | 0, errorStatus: number, claim: string | 0, slot: string | 0, job: string, rare?: Rare,
]

/** What most records do not have. */
type Rare = Pick<TaskRecord, 'callback' | 'holder' | 'keeps' | 'startAt'>

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
  /** When its first run may begin, if it was submitted for later. */
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  /** The process that the work dies with, where the store outlives it. */
  readonly holder: string | undefined
  /** The task face as JSON text. */
  readonly face: string
}

function split(value: string): readonly [head: Head, face: string, work: string | undefined] {
  const end = value.indexOf('\n')
  const head = JSON.parse(value.slice(0, end)) as Head
  const faceEnd = head[0] === 'queued' ? value.indexOf('\n', end + 1) : -1
  return faceEnd < 0 ? [head, value.slice(end + 1), undefined] : [head, value.slice(end + 1, faceEnd), value.slice(faceEnd + 1)]
}

/** Reads what a status answer needs. */
export function toSnapshot(id: string, value: string): TaskSnapshot {
  const [[state, version, , createdAt, expiresAt, owner, errorStatus, , , , rare], face] = split(value)
  return {
    id, state, version, createdAt, expiresAt, owner: owner === 0 ? undefined : owner, errorStatus: errorStatus || undefined,
    startAt: rare?.startAt, holder: rare?.holder, face,
  }
}

/** The snapshot of a record that this process has just written. */
export function snapshotOf(record: TaskRecord, face = toFaceText(record)): TaskSnapshot {
  const { id, state, version, createdAt, startAt, expiresAt, owner, errorStatus, holder } = record
  return { id, state, version, createdAt, startAt, expiresAt, owner, errorStatus, holder, face }
}

/** Reads all of it, to be changed and written again. */
export function decode(id: string, value: string): TaskRecord {
  const [head, face, work] = split(value)
  return toRecord(id, head, JSON.parse(face) as FaceBody, work)
}

/** Reads a record of which nothing but its beginning is known, from its first line. */
export function decodeNew(id: string, name: string, head: string): TaskRecord {
  return toRecord(id, JSON.parse(head) as Head, { task: name })
}

function toRecord(
  id: string, [state, version, attempt, createdAt, expiresAt, owner, errorStatus, claim, slot, job, rare]: Head, body: FaceBody, work?: string,
): TaskRecord {
  return {
    id, name: body.task, state, job, version, attempt, createdAt, expiresAt,
    owner: owner === 0 ? undefined : owner,
    errorStatus: errorStatus || undefined,
    claim: claim || undefined,
    slot: slot || undefined,
    callback: rare?.callback,
    holder: rare?.holder,
    keeps: rare?.keeps,
    startAt: rare?.startAt,
    work,
    progress: body.progress,
    result: 'result' in body ? JSON.stringify(body.result) : undefined,
    error: body.error,
    startedAt: body.startedAt === undefined ? undefined : Date.parse(body.startedAt),
    finishedAt: body.finishedAt === undefined ? undefined : Date.parse(body.finishedAt),
  }
}
