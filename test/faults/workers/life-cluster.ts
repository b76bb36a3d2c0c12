import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, type Tasks } from 'longhaul'
import { redis } from 'longhaul/redis'
import { ServerProcess } from '../../http/kit/process.js'
import { definitionsOf, namespaceOf, type Who } from './life-work.js'
import { program } from '../../servers/program.js'

/** A worker process; ended with the test. */
export async function startWorker(t: TestContext, url: string, who: Who): Promise<ServerProcess> {
  const child = new ServerProcess(
    process.execPath,
    [...program(join(import.meta.dirname, 'life-process.ts')), url, who],
    {},
  )
  t.after(() => { child.child.kill('SIGKILL') })
  await child.said(/ready/)
  return child
}

/** The web process of an application, which runs nothing. */
export function webOf(
  t: TestContext,
  url: string,
  who: Who,
): { tasks: Tasks; submit: (name: string, input: object) => Promise<string>; client: Redis } {
  const client = new Redis(url, { maxRetriesPerRequest: null })
  const engine = redis({ client, namespace: namespaceOf(who) })
  const definitions = definitionsOf(who, client)
  const tasks = createTasks({ ...engine, definitions, worker: false })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await engine.store.close()
    client.disconnect()
  })
  const submit = async (name: string, input: object): Promise<string> => {
    const definition = definitions.find((each) => each.name === name)
    assert.ok(definition)
    return (await tasks.submit(definition, input)).taskId
  }
  return { tasks, submit, client }
}

/** Each of them is completed, after one run, by one of `who`. */
export async function completed(
  { tasks, client }: ReturnType<typeof webOf>,
  ids: readonly string[],
  who: readonly Who[],
): Promise<void> {
  const ends = await Promise.all(ids.map((id) => tasks.wait(id, { timeoutMs: 60_000 })))
  assert.deepEqual(
    ends.map((task) => task?.status),
    ids.map(() => 'completed'),
  )
  for (const id of ids) {
    const runs = await client.lrange(`ran:${id}`, 0, -1)
    assert.equal(runs.length, 1, `${id} ran ${String(runs.length)} times`)
    assert.ok(who.includes(runs[0] as Who), `${id} was run by ${String(runs[0])}`)
  }
}
