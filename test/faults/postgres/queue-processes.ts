import { once } from 'node:events'
import { join } from 'node:path'
import { ServerProcess } from '../../http/kit/process.js'

/** Starts a worker process. Resolves when it runs jobs. */
export async function startWorker(
  url: string, name: string, { pool = 'open', env = {} }: { pool?: 'open' | 'closed', env?: Record<string, string> } = {},
): Promise<ServerProcess> {
  const file = join(import.meta.dirname, 'queue-process.ts')
  const worker = new ServerProcess(process.execPath, ['--import', 'tsx', file, url, name, pool], env)
  await said(worker, 'ready')
  return worker
}

/** Resolves when a process has written this text. */
export async function said(worker: ServerProcess, text: string): Promise<void> {
  while (!worker.out.includes(text)) {
    if (worker.child.exitCode !== null || !worker.child.stdout) throw new Error(`It has ended: ${worker.err}`)
    await Promise.race([once(worker.child.stdout, 'data'), worker.exited])
  }
}
