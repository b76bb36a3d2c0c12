import {
  type ErrorFields, type TaskFailure, type TaskProgress, type TaskRecord, toTaskText,
} from './record.js'
import type { TaskFile } from '../definition/files.js'
import type { AttemptView } from './run-history.js'
import type { TaskState } from './state.js'

/**
 * Encodes a record for the store. The first line (the head) is for longhaul only. The second line
 * is the JSON text for clients, so a status request parses the head and sends the text unchanged. A
 * task that is not completed may have a third line: the data of its job, so that it can run again.
 */
export function encode(record: TaskRecord, text = toTaskText(record)): string {
  const value = `${encodeHead(record)}\n${text}`
  return record.work === undefined ? value : `${value}\n${record.work}`
}

/** Encodes the head. */
export function encodeHead(record: TaskRecord): string {
  const { state, version, attempt, createdAt, expiresAt, errorStatus = 0 } = record
  const { claim, slot, job } = record
  const times = `${version},${attempt},${createdAt},${expiresAt}`
  const names = `${textOr0(claim)},${textOr0(slot)},"${job}"`
  return `["${state}",${times},${ownerText(record)},${errorStatus},${names}${rare(record)}]`
}

function rare(record: TaskRecord): string {
  const {
    callback, holder, keeps, startAt, errorFields, enqueuedLater, runStartedAt, largeWork, blobs,
    pool, priority,
  } = record
  const fileRuns = record.fileRuns?.length === 0 ? undefined : record.fileRuns
  const isUsual = (callback ?? holder ?? keeps ?? startAt ?? errorFields ?? enqueuedLater
    ?? runStartedAt ?? largeWork ?? blobs ?? fileRuns ?? pool ?? priority) === undefined
  if (isUsual) return ''
  const members: Rare = {
    callback, holder, keeps, startAt, errorFields, enqueuedLater, runStartedAt, largeWork,
    blobs, fileRuns, pool, priority,
  }
  return `,${JSON.stringify(members)}`
}

/** Encodes the owner as a text. Encodes the party of a task without an owner as a list. */
function ownerText({ owner, party }: TaskRecord): string {
  return owner === undefined && party !== undefined
    ? `[${JSON.stringify(party)}]` : textOr0(owner)
}

function textOr0(text: string | undefined): string {
  return text === undefined ? '0' : JSON.stringify(text)
}

/** The head as an array. 0 stands for an absent value. */
type Head = [
  state: TaskState, version: number, attempt: number, createdAt: number, expiresAt: number,
  owner: string | readonly [party: string] | 0, errorStatus: number, claim: string | 0, slot: string | 0, job: string,
  rare?: Rare,
]

/** Members that most records do not have. */
type Rare = Pick<
  TaskRecord,
  | 'callback' | 'holder' | 'keeps' | 'startAt' | 'errorFields' | 'enqueuedLater' | 'runStartedAt'
  | 'largeWork' | 'blobs' | 'fileRuns' | 'pool' | 'priority'
>

/** The members of the JSON text that are needed to write the record again. */
interface TaskBody {
  task: string
  progress?: TaskProgress
  result?: unknown
  files?: readonly TaskFile[]
  error?: TaskFailure
  attempts?: readonly AttemptView[]
  startedAt?: string
  finishedAt?: string
}

/** A record for readers, with a parsed head and unparsed JSON for clients. */
export interface TaskSnapshot {
  readonly id: string
  readonly state: TaskState
  readonly version: number
  /** Number of the latest run; 0 before the first one. */
  readonly attempt: number
  readonly createdAt: number
  /** Time before which its first run does not begin, if it was submitted for later. */
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  /** Id of the process that runs the task, if the store outlives it and the run does not. */
  readonly holder: string | undefined
  /** Names of the blobs of its result files, or of those that a later run may take over. */
  readonly blobs?: readonly string[] | undefined
  /** The task as clients see it, as JSON text, without the URLs of its files. */
  readonly text: string
}

function split(value: string): readonly [head: Head, text: string, work: string | undefined] {
  const end = value.indexOf('\n')
  const head = JSON.parse(value.slice(0, end)) as Head
  // A result may be long, and a completed task has no third line.
  const textEnd = head[0] === 'completed' ? -1 : value.indexOf('\n', end + 1)
  if (textEnd < 0) return [head, value.slice(end + 1), undefined]
  return [head, value.slice(end + 1, textEnd), value.slice(textEnd + 1)]
}

/** Decodes the members that a status answer needs. */
export function toSnapshot(id: string, value: string): TaskSnapshot {
  const [head, text] = split(value)
  const [state, version, attempt, createdAt, expiresAt, owner, errorStatus, , , , rare] = head
  return {
    id, state, version, attempt, createdAt, expiresAt, owner: typeof owner === 'string' ? owner : undefined,
    errorStatus: errorStatus || undefined,
    errorFields: rare?.errorFields, startAt: rare?.startAt, holder: rare?.holder,
    blobs: rare?.blobs, text,
  }
}

/** Returns the snapshot of a record that this process has just written. */
export function snapshotOf(record: TaskRecord, text = toTaskText(record)): TaskSnapshot {
  const { id, state, version, attempt, createdAt, startAt, expiresAt } = record
  const { owner, errorStatus, errorFields, holder, blobs } = record
  return {
    id, state, version, attempt, createdAt, startAt, expiresAt, owner, errorStatus, errorFields,
    holder, blobs, text,
  }
}

/** Decodes a whole record, to change it and write it again. */
export function decode(id: string, value: string): TaskRecord {
  const [head, text, work] = split(value)
  return toRecord(id, head, JSON.parse(text) as TaskBody, work)
}

/**
 * Decodes a record before its first run, which its head describes completely, except for its work.
 */
export function decodeNew(id: string, name: string, head: string): TaskRecord {
  return toRecord(id, JSON.parse(head) as Head, { task: name })
}

function toRecord(id: string, head: Head, body: TaskBody, work?: string): TaskRecord {
  const [
    state, version, attempt, createdAt, expiresAt, owner, errorStatus, claim, slot, job, rare,
  ] = head
  return {
    id, name: body.task, state, job, version, attempt, createdAt, expiresAt,
    owner: typeof owner === 'string' ? owner : undefined,
    party: typeof owner === 'object' ? owner[0] : undefined,
    errorStatus: errorStatus || undefined,
    claim: claim || undefined,
    slot: slot || undefined,
    callback: rare?.callback,
    holder: rare?.holder,
    keeps: rare?.keeps,
    startAt: rare?.startAt,
    pool: rare?.pool,
    priority: rare?.priority,
    errorFields: rare?.errorFields,
    enqueuedLater: rare?.enqueuedLater,
    files: body.files, blobs: rare?.blobs, fileRuns: rare?.fileRuns,
    runStartedAt: rare?.runStartedAt,
    largeWork: rare?.largeWork,
    work,
    attempts: body.attempts,
    progress: body.progress,
    result: 'result' in body ? JSON.stringify(body.result) : undefined,
    error: body.error,
    startedAt: body.startedAt === undefined ? undefined : Date.parse(body.startedAt),
    finishedAt: body.finishedAt === undefined ? undefined : Date.parse(body.finishedAt),
  }
}
