// The calls of engine, store and blobs that one background request makes, from its body to its clean-up.
import type { TestContext } from 'node:test'
import { createTasks, taskEndpoints, type AnyTaskDefinition, type Handler, type TaskEndpoints } from 'longhaul'
import { bulkCreate, bulkItems } from 'longhaul/bulk'
import { ndjsonUpload } from 'longhaul/ndjson'
import { inject } from 'longhaul/testing'
import { countedPorts, type Calls, type Ports } from './counted-calls.js'
import { eventually } from './wait.js'

const RECORDS = 1000
const records = Array.from({ length: RECORDS }, (_, n) => (
  { name: `User ${n}`, email: `user${n}@example.org`, role: 'reader' }
))

interface Background {
  readonly task: AnyTaskDefinition
  handler(endpoints: TaskEndpoints): Handler
}

interface Sent {
  readonly type: string
  readonly body: string
  readonly create: (blobs: Ports['blobs']) => Background
}

/** Sends a request, and waits until its task has ended and its body is deleted. */
async function callsOf(t: TestContext, ports: Ports, { type, body, create }: Sent) {
  const counted = countedPorts(ports)
  const { engine, store, blobs } = counted
  const background = create(blobs)
  // A slow machine writes no more progress than a fast one.
  const tasks = createTasks({ engine, store, definitions: [background.task], progressIntervalMs: 60_000 })
  t.after(() => tasks.close({ drainMs: 0 }))
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'ann' })
  const bodies: string[] = []
  const put = ports.blobs.put.bind(ports.blobs)
  ports.blobs.put = (key, ...rest) => {
    bodies.push(key)
    return put(key, ...rest)
  }
  counted.reset()
  const response = await inject(background.handler(endpoints), {
    method: 'POST', path: '/records', body, headers: { 'content-type': type, 'prefer': 'respond-async' },
  })
  if (response.status !== 202) throw new Error(`${response.status}: ${await response.text()}`)
  const id = String(response.headers['location']).slice('/tasks/'.length)
  await eventually(async () => (await ports.engine.read(id))?.status === 'completed', 20_000)
  await eventually(async () => await ports.blobs.stat(bodies[0] as string) === undefined, 20_000)
  const calls = counted.calls()
  return { calls, id, endpoints, blobs: counted.blobs, result: (await ports.engine.read(id))?.result }
}

/** Returns the calls of a bulk request of 1,000 items in the background. */
export async function bulkCalls(t: TestContext, ports: Ports): Promise<Calls> {
  const { calls, id, endpoints, blobs } = await callsOf(t, ports, {
    type: 'application/json', body: JSON.stringify(records),
    create: (of) => bulkCreate({
      repository: { createMany: (items: readonly object[]) => items.map((_, n) => ({ id: n })) },
      background: { name: 'create', blobs: of },
    }),
  })
  const response = await inject(bulkItems({ endpoints, blobs }), { path: `/tasks/${id}/items` })
  const lines = (await response.text()).split('\n').length - 1
  if (response.status !== 200 || lines !== RECORDS) throw new Error(`${response.status} with ${lines} items`)
  return calls
}

/** Returns the calls of an NDJSON upload of 1,000 lines in the background. */
export async function ndjsonCalls(t: TestContext, ports: Ports): Promise<Calls> {
  const { calls, result = '{}' } = await callsOf(t, ports, {
    type: 'application/x-ndjson', body: records.map((each) => `${JSON.stringify(each)}\n`).join(''),
    create: (blobs) => ndjsonUpload({ write: () => undefined, background: { name: 'upload', blobs } }),
  })
  const { summary } = JSON.parse(result) as { summary?: { succeeded: number } }
  if (summary?.succeeded !== RECORDS) throw new Error(`The result is ${result}`)
  return calls
}

/** Maximum number of calls of one request with 1,000 records, from its body to its clean-up. */
export const CALL_BUDGETS = { bulk: 17, ndjson: 12 } as const
