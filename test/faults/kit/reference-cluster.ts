// The reference server in several processes on one Redis, or on one PostgreSQL alone.
import { Client } from '../../http/kit/reference.js'
import { startProcess, type ServerProcess } from '../../http/kit/process.js'

const TOKENS = 'writer-1=will:writer'

/** The setting that names the database of all parts. */
export function databaseOf(url: string): Record<string, string> {
  return url.startsWith('postgres') ? { DATABASE: url } : { REDIS_URL: url }
}

export interface Web {
  readonly process: ServerProcess
  readonly client: Client
}

/** A process that answers requests and runs no tasks. */
export async function startWeb(url: string): Promise<Web> {
  const process = startProcess({ ...databaseOf(url), WORKER: 'off', AUTH_TOKENS: TOKENS, RATE_LIMIT: '1000000' })
  return { process, client: new Client(await process.url()) }
}

/** A process that runs tasks and answers nothing. */
export async function startWorker(url: string): Promise<ServerProcess> {
  const worker = startProcess({ ...databaseOf(url), WORKER: 'only' })
  await worker.said(/The worker is ready/)
  return worker
}
