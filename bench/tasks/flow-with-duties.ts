// The 202 flow by hand with the duties of longhaul: `Prefer` is parsed, the record is bounded in count, bytes and age and
// changes by compare-and-set only, the queue is bounded and runs a limited number of tasks, and a task can be cancelled.
import { randomUUID } from 'node:crypto'
import type { Task } from './flow.js'
import { doWork, type Input } from './work.js'

/** A record is text: its size is known, and no caller can change it. */
interface Entry {
  text: string
  revision: number
  readonly expiresAt: number
}

interface Job {
  readonly id: string
  /** The input as text, so that the size of the waiting work is known. */
  readonly input: string
}

/** A record in its present state. */
interface Held {
  readonly task: Task
  readonly revision: number
}

const RETENTION_MS = 86_400_000
const MAX_RECORDS = 1_000_000
const MAX_BYTES = 512 * 1024 * 1024
const MAX_QUEUED = 10_000
const MAX_QUEUED_BYTES = 64 * 1024 * 1024
const MAX_RESULT_BYTES = 1024 * 1024
const CONCURRENCY = 10
const PREFERENCE = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^;]*))?/

const records = new Map<string, Entry>()
const running = new Map<string, AbortController>()
const waiting: Job[] = []
let recordBytes = 0
let waitingBytes = 0
let active = 0

/** Returns true if the client prefers an asynchronous answer (RFC 7240: the first of its name counts). */
export function prefersAsync(header: string | undefined): boolean {
  if (header === undefined) return false
  return header.split(',').some((part) => PREFERENCE.exec(part)?.[1]?.toLowerCase() === 'respond-async')
}

/** Creates the record and enqueues the work. Returns undefined if there is no room: the answer is 503. */
export function accept(input: Input): Task | undefined {
  const text = JSON.stringify(input)
  if (waiting.length >= MAX_QUEUED || waitingBytes + text.length > MAX_QUEUED_BYTES) return undefined
  const task: Task = {
    taskId: randomUUID(), status: 'processing', message: 'The task was accepted and is being processed.', task: 'report',
    createdAt: new Date().toISOString(),
  }
  if (!create(task)) return undefined
  waiting.push({ id: task.taskId, input: text })
  waitingBytes += text.length
  setImmediate(startNext)
  return task
}

/** Reads a record. */
export function find(id: string): Task | undefined {
  return read(id)?.task
}

/** Cancels a task that is not final. */
export function cancel(id: string): boolean {
  running.get(id)?.abort()
  return end(id, (task) => ({ ...task, status: 'failed', error: { code: 'task_cancelled', message: 'The task was cancelled.' } }))
}

function startNext(): void {
  while (active < CONCURRENCY) {
    const job = waiting.shift()
    if (!job) return
    waitingBytes -= job.input.length
    active++
    void run(job).finally(() => {
      active--
      startNext()
    })
  }
}

async function run({ id, input }: Job): Promise<void> {
  const held = read(id)
  if (!held || held.task.status !== 'processing') return
  const startedAt = new Date().toISOString()
  running.set(id, new AbortController())
  try {
    const result = await doWork(JSON.parse(input) as Input)
    if (JSON.stringify(result).length > MAX_RESULT_BYTES) throw new RangeError('The result is too large.')
    end(id, (task) => ({ ...task, status: 'completed', message: 'The task is completed.', result, startedAt }))
  } catch {
    const error = { code: 'task_failed', message: 'The task failed.' }
    end(id, (task) => ({ ...task, status: 'failed', message: 'The task failed.', error, startedAt }))
  } finally {
    running.delete(id)
  }
}

/** Writes the final state, unless the record is final already. */
function end(id: string, change: (task: Task) => Task): boolean {
  for (;;) {
    const held = read(id)
    if (!held || held.task.status !== 'processing') return false
    if (replace(id, { ...change(held.task), finishedAt: new Date().toISOString() }, held.revision)) return true
  }
}

function read(id: string): Held | undefined {
  const entry = records.get(id)
  if (!entry || entry.expiresAt <= Date.now()) return undefined
  return { task: JSON.parse(entry.text) as Task, revision: entry.revision }
}

function create(task: Task): boolean {
  const text = JSON.stringify(task)
  if (recordBytes + text.length > MAX_BYTES || records.size >= MAX_RECORDS) evictOldest()
  if (recordBytes + text.length > MAX_BYTES || records.has(task.taskId)) return false
  recordBytes += text.length
  records.set(task.taskId, { text, revision: 1, expiresAt: Date.now() + RETENTION_MS })
  return true
}

function replace(id: string, task: Task, revision: number): boolean {
  const entry = records.get(id)
  if (entry?.revision !== revision) return false
  const text = JSON.stringify(task)
  recordBytes += text.length - entry.text.length
  entry.text = text
  entry.revision++
  return true
}

/** Removes the oldest final records, until a tenth of the room is free. */
function evictOldest(): void {
  for (const [id, { text }] of records) {
    if (recordBytes < MAX_BYTES * 0.9 && records.size < MAX_RECORDS * 0.9) return
    if ((JSON.parse(text) as Task).status === 'processing') continue
    recordBytes -= text.length
    records.delete(id)
  }
}

setInterval(() => {
  const now = Date.now()
  for (const [id, { text, expiresAt }] of records) {
    if (expiresAt > now) return
    recordBytes -= text.length
    records.delete(id)
  }
}, 60_000).unref()
