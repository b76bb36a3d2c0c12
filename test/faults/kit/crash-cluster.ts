import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach } from 'node:test'
import { Client, type Answer } from '../../http/kit/reference.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import type { CrashDatabase } from './database.js'
import { program } from '../../servers/program.js'
import { eventually } from '../../kit/wait.js'

/** Processes that end where they are told, on one database. */
export async function crashCluster({ url, engine }: CrashDatabase) {
  stopAfterwards()
  const workers: ServerProcess[] = []
  // Otherwise they would run the tasks of the next test.
  afterEach(async () => {
    for (const { child, exited } of workers.splice(0)) {
      child.kill('SIGKILL')
      await exited
    }
  })

  const start = async (role: 'web' | 'worker', where = '-'): Promise<ServerProcess> => {
    const file = join(import.meta.dirname, '..', 'crash', 'process.ts')
    const child = new ServerProcess(process.execPath, [...program(file), url, role, where], {})
    if (role === 'worker') workers.push(child)
    // Some workers end before they are ready.
    await Promise.race([child.said(/ready/), child.exited])
    return child
  }

  /** A web process that lives. */
  const client = new Client(await (await start('web')).url())

  return {
    start,
    client,
    /** Resolves once a process has ended itself. */
    died: async (child: ServerProcess): Promise<void> => {
      assert.deepEqual(await child.exited, { code: null, signal: 'SIGKILL' }, child.err)
    },
    /** Ends a process, which is gone when this resolves: what comes next has the tasks to itself. */
    end: async (child: ServerProcess): Promise<void> => {
      child.child.kill('SIGKILL')
      await child.exited
    },
    /** Returns the points that a process has reached. */
    points: (child: ServerProcess): string[] =>
      [...child.out.matchAll(/^point (.*)$/gm)].map(([, point = '']) => point),
    /** Resolves when no task is unfinished. */
    idle: (): Promise<void> =>
      eventually(
        async () => {
          const { running, waiting, delayed } = await engine.counts('default')
          return running + waiting + delayed === 0
        },
        30_000,
        'every task has ended',
      ),
    /** Ids of all tasks. */
    taskIds: async (): Promise<string[]> => {
      const tasks = await engine.list({ of: 'all', order: 'newest', limit: 1000 })
      return tasks.map(({ id }) => id)
    },
    cancel: (to: Client, taskId: unknown): Promise<Answer> => to.ask('DELETE', `/tasks/${String(taskId)}`),
    /** Deletes a final task. */
    remove: async (to: Client, taskId: unknown): Promise<Answer> => {
      const path = `/tasks/${String(taskId)}`
      const { headers } = await client.ask('GET', path)
      return to.ask('DELETE', path, { headers: { 'if-match': headers.get('etag') ?? '' } })
    },
    submit: (to: Client, body: object, key?: string): Promise<Answer> =>
      to.ask('POST', '/tasks', { body, headers: key === undefined ? {} : { 'idempotency-key': key } }),
  }
}

/** What `crashCluster` returns. */
export type CrashCluster = Awaited<ReturnType<typeof crashCluster>>
