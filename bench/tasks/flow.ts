// The 202 flow by hand. The peers of longhaul run it behind their own routing, body
// parsing and responses. Their answers have the same fields as those of longhaul, so all write the same bytes.
import { randomUUID } from 'node:crypto'
import { doWork, type Input, type Result } from './work.js'

export interface Task {
  readonly taskId: string
  status: 'processing' | 'completed' | 'failed'
  message: string
  readonly task: string
  result?: Result
  error?: { readonly code: string; readonly message: string }
  readonly createdAt: string
  startedAt?: string
  finishedAt?: string
}

const RETENTION_MS = 86_400_000
const tasks = new Map<string, Task>()

/** Accepts a task, which runs after the answer was sent. */
export function accept(input: Input): Task {
  const task: Task = {
    taskId: randomUUID(), status: 'processing', message: 'The task was accepted and is being processed.', task: 'report',
    createdAt: new Date().toISOString(),
  }
  tasks.set(task.taskId, task)
  setImmediate(() => { void run(task, input) })
  return task
}

async function run(task: Task, input: Input): Promise<void> {
  task.startedAt = new Date().toISOString()
  try {
    task.result = await doWork(input)
    task.status = 'completed'
    task.message = 'The task is completed.'
  } catch {
    task.status = 'failed'
    task.message = 'The task failed.'
    task.error = { code: 'task_failed', message: 'The task failed.' }
  }
  task.finishedAt = new Date().toISOString()
}

export function find(id: string): Task | undefined {
  return tasks.get(id)
}

/** Returns the number of tasks that are not final. */
export function pending(): number {
  let count = 0
  for (const task of tasks.values()) if (task.status === 'processing') count++
  return count
}

export function acceptedHeaders(task: Task): Record<string, string> {
  const location = `/tasks/${task.taskId}`
  return {
    location, 'content-location': location, 'vary': 'Prefer', 'retry-after': '1', 'preference-applied': 'respond-async',
  }
}

export function statusHeaders(task: Task): Record<string, string> {
  const finished = task.finishedAt ?? task.createdAt
  return {
    'etag': `"${task.taskId.slice(0, 8)}-${task.status}"`, 'cache-control': 'private, no-cache',
    'vary': 'Prefer, Accept, Authorization', 'sunset': new Date(Date.parse(finished) + RETENTION_MS).toUTCString(),
  }
}
