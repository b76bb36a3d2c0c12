import assert from 'node:assert/strict'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterEach } from 'node:test'
import { eventually } from '../../../src/conformance/waiting.js'
import { Client, type Answer } from '../../http/kit/reference.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import type { CrashDatabase } from './database.js'

/** Processes that end where they are told, on one database. */
export async function crashCluster({ url, engine }: CrashDatabase) {
  stopAfterwards()
  const workers: ServerProcess[] = []
  // Whatever became of a test, the next one's tasks are not for its workers.
  afterEach(async () => {
    for (const { child, exited } of workers.splice(0)) {
      child.kill('SIGKILL')
      await exited
    }
  })

  const start = async (role: 'web' | 'worker', where = '-', maxCrashes = 3): Promise<ServerProcess> => {
    const file = join(import.meta.dirname, 'process.ts')
    const child = new ServerProcess(process.execPath, ['--import', 'tsx', file, url, role, where, String(maxCrashes)], {})
    if (role === 'worker') workers.push(child)
    while (!child.out.includes('ready')) {
      // Some worker meets its end before it has said anything.
      if (child.child.exitCode !== null || child.child.signalCode !== null || !child.child.stdout) break
      await Promise.race([once(child.child.stdout, 'data'), child.exited])
    }
    return child
  }

  return {
    start,
    /** Ended by its own hand. */
    died: async (child: ServerProcess): Promise<void> => { assert.deepEqual(await child.exited, { code: null, signal: 'SIGKILL' }, child.err) },
    /** Ends a process, which is gone when this resolves: what comes next has the tasks to itself. */
    end: async (child: ServerProcess): Promise<void> => {
      child.child.kill('SIGKILL')
      await child.exited
    },
    /** Resolves when no task is left to run. */
    idle: (): Promise<void> => eventually(async () => {
      const { running, waiting, delayed } = await engine.counts('default')
      return running + waiting + delayed === 0
    }, 30_000, 'nothing is left to run'),
    /** A web process that lives. */
    client: new Client(await (await start('web')).url()),
    submit: (to: Client, body: object, key?: string): Promise<Answer> => to.ask('POST', '/tasks', { body, headers: key === undefined ? {} : { 'idempotency-key': key } }),
  }
}

/** What `crashCluster` returns. */
export type CrashCluster = Awaited<ReturnType<typeof crashCluster>>
