import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestContext } from 'node:test'
import { newId } from '../../../src/runtime/random-id.js'
import type { SpooledBody } from '../../../src/tasks/http/spool-body.js'
import type { openWeb } from './site.js'

type Web = Pick<Awaited<ReturnType<typeof openWeb>>, 'tasks' | 'worker' | 'site'>

/** Stores a body as its endpoint does. `prefix` begins its key. */
export async function spool({ site }: Web, prefix: string, body: Uint8Array): Promise<SpooledBody> {
  const blob = `${prefix}/${newId()}`
  await site.blobs.put(blob, oneOf(body), { ttlMs: 3_600_000 })
  return { blob, coding: 'identity', size: body.length }
}

/**
 * Kills the workers of a task at random points, then lets one complete it. Returns its result. A
 * worker writes at most `perKill` batches before its death.
 */
export async function completeKilled(
  t: TestContext, { tasks, worker }: Web, taskId: string, kills: number,
  { perKill, lastRunMs }: { readonly perKill: number, readonly lastRunMs: number },
): Promise<unknown> {
  for (let kill = 0; kill < kills; kill++) {
    const next = await worker(t)
    const batches = 1 + Math.floor(Math.random() * perKill)
    await next.said(new RegExp(`(wrote\n){${batches}}`))
    await sleep(Math.random() * 10)
    next.child.kill('SIGKILL')
    await next.exited
    assert.notEqual((await tasks.get(taskId))?.status, 'completed', 'each kill is before the end')
  }
  await worker(t)
  const end = await tasks.wait(taskId, { timeoutMs: lastRunMs })
  assert.equal(end?.status, 'completed')
  return end.result
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
