// BullMQ as an application has it, in both majors.
import { randomUUID } from 'node:crypto'
import { after } from 'node:test'
import * as bullmq6 from 'bullmq'
import * as bullmq5 from 'bullmq5'
import { ServerProcess } from '../../http/kit/process.js'
import { program } from '../../servers/program.js'

export type Major = '5' | '6'
export const MAJORS: readonly Major[] = ['5', '6']

export const connectionOf = (url: string) => ({ host: '127.0.0.1', port: Number(new URL(url).port) })

/** A queue and its events. */
export function openQueue(major: Major, url: string, name: string, options: { readonly attempts?: number } = {}) {
  const { Queue, QueueEvents } = major === '5' ? bullmq5 as unknown as typeof bullmq6 : bullmq6
  const connection = connectionOf(url)
  // As BullMQ advises for processes that serve requests: a call fails at once while Redis is away.
  const queue = new Queue<unknown, unknown>(name, {
    connection: { ...connection, enableOfflineQueue: false, maxRetriesPerRequest: 0 },
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true, ...options },
  })
  const events = new QueueEvents(name, { connection })
  queue.on('error', () => undefined)
  events.on('error', () => undefined)
  return {
    queue, events,
    close: async () => { await Promise.all([queue.close(), events.close()]) },
  }
}

/** A queue for a test file, whose jobs are those of one test. */
export function queueForFile(major: Major, url: string, options?: { readonly attempts?: number }) {
  const opened = openQueue(major, url, `jobs-${randomUUID()}`, options)
  after(opened.close)
  return opened
}

/** Starts the workers of the application, in their own process. */
export async function startWorkers(major: Major, url: string, name: string): Promise<ServerProcess> {
  const worker = new ServerProcess(process.execPath, [...program('test/faults/bullmq/worker.ts'), major, url, name], {})
  await worker.said(/ready/)
  return worker
}
