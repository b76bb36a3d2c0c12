import { createServer } from 'node:http'
import type { TestContext } from 'node:test'
import {
  createTasks, httpError, jobFormat, router, taskEndpoints, type AnyTaskDefinition, type TasksOptions,
} from 'longhaul'
import { toNode } from 'longhaul/node'
import type { FilesEngine } from './file-engines.js'
import { listen } from '../../kit/listen.js'

/** A file in the body of a status resource. */
export interface FileBody {
  readonly name: string
  readonly url: string
  readonly size: number
  readonly type: string
  readonly digest: string
}

/** The members of a status resource that these tests read. */
export interface StatusBody {
  readonly taskId: string
  readonly status: string
  readonly attempt?: number
  readonly result?: unknown
  readonly files?: readonly FileBody[]
  readonly error?: { readonly code: string }
}

/** One server over tasks that write files. The header `x-user` names the client. */
export async function filesSite(
  t: TestContext, engine: FilesEngine, definitions: readonly AnyTaskDefinition[],
  options: Partial<TasksOptions> = {},
) {
  const heard: unknown[] = []
  const tasks = createTasks({
    ...engine.parts, definitions, onError: (error) => { heard.push(error) }, ...options,
  })
  const owner = ({ headers }: { headers: Readonly<Record<string, unknown>> }) => (
    headers['x-user'] as string | undefined
  ) || undefined
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, anonymous: true })
  const jobs = taskEndpoints(tasks, { statusPath: '/jobs/{id}/status', format: jobFormat, owner, anonymous: true })
  const handler = toNode(router({
    'POST /work': endpoints.submit((body) => {
      const definition = tasks.definition((body as { task: string }).task)
      if (!definition) throw httpError('unknown_task')
      return { definition, input: body }
    }),
    '/tasks/{id}': endpoints.status,
    '/tasks/{id}/files/{name}': endpoints.files,
    '/jobs/{id}/status': jobs.status,
    '/jobs/{id}/status/files/{name}': jobs.files,
  }), { mountPath: '/v1' })
  const server = createServer((req, res) => { void handler(req, res) })
  const { url: origin, close } = await listen(server)
  t.after(async () => {
    await close()
    await tasks.close({ drainMs: 0 })
  })
  const call = (
    method: string, path: string, headers: Readonly<Record<string, string>> = {}, body?: unknown,
  ): Promise<Response> => fetch(origin + path, {
    method, headers: { ...body !== undefined && { 'content-type': 'application/json' }, ...headers },
    ...body !== undefined && { body: JSON.stringify(body) },
  })
  /** Starts a task, and waits for its end. */
  const ran = async (
    task: string, input: object = {}, user = 'ann',
  ): Promise<{ readonly path: string, readonly body: StatusBody }> => {
    const accepted = await call(
      'POST', '/v1/work', { 'x-user': user, prefer: 'respond-async' }, { ...input, task },
    )
    const path = accepted.headers.get('location') ?? `no location: ${await accepted.text()}`
    return { path, body: await end(path, user) }
  }
  const status = async (path: string, user = 'ann'): Promise<StatusBody> => (
    await (await call('GET', path, { 'x-user': user })).json() as StatusBody
  )
  /** Returns a task once it is final. */
  const end = async (path: string, user = 'ann'): Promise<StatusBody> => {
    for (;;) {
      const response = await call('GET', path, { 'x-user': user, prefer: 'wait=20' })
      const body = await response.json() as StatusBody
      if (body.status !== 'processing') return body
    }
  }
  return { tasks, call, ran, status, end, heard, origin, server }
}

/** What `filesSite` returns. */
export type FilesSite = Awaited<ReturnType<typeof filesSite>>
