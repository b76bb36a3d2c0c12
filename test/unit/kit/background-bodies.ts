// A server with bulk and NDJSON handlers in the background. Their tasks wait until `go`.
import type { TestContext } from 'node:test'
import { bulkCreate } from '../../../src/bulk/create.js'
import type { TaskEngine } from '../../../src/engine/engine.js'
import type { Handler, HttpRequest } from '../../../src/http/exchange.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Store } from '../../../src/stores/store.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { inject } from '../../../src/testing/index.js'
import { deferred } from '../../kit/wait.js'

export const KINDS = ['bulk', 'ndjson'] as const
export type Kind = typeof KINDS[number]

export interface Setting {
  readonly store: Store
  readonly engine: TaskEngine
  readonly blobs: Blobs
  /** Blobs of the bulk handler. Default: `blobs`. */
  readonly bulkBlobs?: Blobs
  readonly maxBytesPerOwner?: number
  readonly maxPerOwner?: number
  readonly blobRetentionMs?: number
}

export interface Told {
  readonly status: number
  readonly code: string | undefined
  readonly retryAfter: unknown
  readonly taskId: string
}

export interface Sent {
  readonly user?: string
  readonly peerAddress?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Content of one valid item, as a body of exactly `size` bytes. */
export function bodyOf(kind: Kind, size: number): string {
  const [open, close] = kind === 'bulk' ? ['[{"t":"', '"}]'] : ['{"t":"', '"}\n']
  return open + 'x'.repeat(size - open.length - close.length) + close
}

/** The same in pieces, without a Content-Length. Waits at the end until `until` resolves. */
export async function* piecesOf(
  kind: Kind, size: number, piece: number, until?: Promise<unknown>,
): AsyncGenerator<string> {
  const text = bodyOf(kind, size)
  for (let at = 0; at < size; at += piece) {
    if (at + piece >= size) await until
    yield text.slice(at, at + piece)
  }
}

export function setUp(t: TestContext, setting: Setting) {
  const { store, engine, blobs, bulkBlobs = blobs, maxBytesPerOwner, maxPerOwner, blobRetentionMs } = setting
  const gate = deferred()
  const background = {
    ...maxPerOwner !== undefined && { maxPerOwner },
    ...blobRetentionMs !== undefined && { blobRetentionMs },
  }
  const bulk = bulkCreate<object, object>({
    repository: { createMany: async (drafts) => { await gate.promise; return [...drafts] } },
    maxBodyBytes: 2 ** 23, maxDirectBytes: 2 ** 22, maxItemBytes: 2 ** 23,
    background: { name: 'bulk', blobs: bulkBlobs, ...background },
  })
  const ndjson = ndjsonUpload({
    write: () => gate.promise, maxLineBytes: 2 ** 23, background: { name: 'ndjson', blobs, ...background },
  })
  const tasks = createTasks({ store, engine, definitions: [bulk.task, ndjson.task], onError: () => undefined })
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    anonymous: true,
    owner: ({ headers }: HttpRequest) => headers['x-user'] as string | undefined,
    ...(maxBytesPerOwner !== undefined && { maxBytesPerOwner }),
  })
  const handlers: Readonly<Record<Kind, Handler>> = {
    bulk: bulk.handler(endpoints), ndjson: ndjson.handler(endpoints),
  }
  t.after(async () => {
    gate.resolve()
    await tasks.close({ drainMs: 1000 })
  })
  const send = async (kind: Kind, body: unknown, { user, headers, ...rest }: Sent = {}): Promise<Told> => {
    const response = await inject(handlers[kind], {
      method: 'POST', path: `/${kind}`, body, ...rest, onError: () => undefined, headers: {
        'content-type': kind === 'bulk' ? 'application/json' : 'application/x-ndjson',
        'prefer': 'respond-async', ...user !== undefined && { 'x-user': user }, ...headers,
      },
    })
    const { code, taskId = '' } = await response.json<{ code?: string, taskId?: string }>()
    return { status: response.status, code, retryAfter: response.headers['retry-after'], taskId }
  }
  return {
    tasks, handlers, send,
    /** Lets all tasks run to their end. */
    go: () => { gate.resolve() },
    /** Sends a body of `size` bytes. Returns the status, and the code of an error. */
    async sized(kind: Kind, size: number, sent: Sent = { user: 'ann' }): Promise<string> {
      const { status, code } = await send(kind, bodyOf(kind, size), sent)
      return code === undefined ? String(status) : `${status} ${code}`
    },
  }
}
