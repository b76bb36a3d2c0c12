import { join } from 'node:path'
import { ServerProcess } from '../../http/kit/process.js'
import { program } from '../../servers/program.js'

/** Starts a worker process. Resolves when it has reached the database. */
export async function startWorker(url: string, pool: 'open' | 'closed' = 'open'): Promise<ServerProcess> {
  const file = join(import.meta.dirname, 'worker-process.ts')
  const worker = new ServerProcess(process.execPath, [...program(file), url, pool], {})
  await worker.said(/ready/)
  return worker
}
