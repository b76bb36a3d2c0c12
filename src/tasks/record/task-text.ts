import type { StoredTask, TaskStatus } from '../../engine/task.js'
import { callbackText } from './callback-state.js'
import { callbackOf, detailsOf } from './details.js'

const ACCEPTED = '"processing","message":"The task was accepted and is being processed."'

/** The status and message of each state, as clients see them. */
const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: ACCEPTED,
  processing: ACCEPTED,
  completed: '"completed","message":"The task is completed."',
  failed: '"failed","message":"The task failed."',
  cancelled: '"cancelled","message":"The task was cancelled."',
}

/**
 * Returns the task as clients see it (SPEC 2.4, 2.5), as JSON text: the body of the 202 and of the
 * status resource. A queued task reads `processing`; only the job format shows `queued`.
 */
export function toTaskText(task: StoredTask): string {
  const { id, name, attempt, result, createdAt, startAt, startedAt, finishedAt } = task
  const { progress, files, error, attempts } = detailsOf(task)
  const callback = callbackOf(task)
  let text = `{"taskId":"${id}","status":${statusOf(task)},"task":"${name}"`
  if (attempt > 0) text += `,"attempt":${attempt}`
  if (progress !== undefined) text += `,"progress":${JSON.stringify(progress)}`
  if (result !== undefined) text += `,"result":${result}`
  if (files !== undefined) text += `,"files":${JSON.stringify(files)}`
  if (error !== undefined) text += `,"error":${JSON.stringify(error)}`
  if (attempts !== undefined) text += `,"attempts":${JSON.stringify(attempts)}`
  if (callback !== undefined) text += `,"callback":${callbackText(callback)}`
  text += `,"createdAt":"${toIso(createdAt)}"`
  if (startAt !== undefined) text += `,"startAt":"${toIso(startAt)}"`
  if (startedAt !== undefined) text += `,"startedAt":"${toIso(startedAt)}"`
  if (finishedAt !== undefined) text += `,"finishedAt":"${toIso(finishedAt)}"`
  return text + '}'
}

/** A task for later says when it starts, until it does. */
function statusOf({ status, startAt, attempt }: StoredTask): string {
  if (startAt === undefined || status !== 'queued' || attempt > 0) return STATUS[status]
  return `"processing","message":"The task was accepted and starts at ${toIso(startAt)}."`
}

/** The end of a time, by its milliseconds. */
const ENDS = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`)
let lastSecond = Number.NaN
let lastStart = ''

/** ISO 8601. The last second is remembered: a task has up to three times, mostly of one second. */
function toIso(ms: number): string {
  const second = Math.floor(ms / 1000)
  if (second !== lastSecond) {
    lastStart = new Date(second * 1000).toISOString().slice(0, -4)
    lastSecond = second
  }
  return lastStart + (ENDS[ms - second * 1000] as string)
}
