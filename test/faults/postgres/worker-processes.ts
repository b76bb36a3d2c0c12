import { once } from 'node:events'
import { join } from 'node:path'
import { ServerProcess } from '../../http/kit/process.js'
import { program } from '../../servers/program.js'

/** Starts a worker process. Resolves when it has reached the database. */
export async function startWorker(url: string, pool: 'open' | 'closed' = 'open'): Promise<ServerProcess> {
  const file = join(import.meta.dirname, 'worker-process.ts')
  const worker = new ServerProcess(process.execPath, [...program(file), url, pool], {})
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
