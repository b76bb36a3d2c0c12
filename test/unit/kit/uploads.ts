import { createHash } from 'node:crypto'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import type { Handler, HttpRequest, RequestHeaders } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { inject } from '../../../src/testing/index.js'
import type { InjectedResponse } from '../../../src/testing/inject.js'
import { resumableUpload, type ResumableUploadOptions } from '../../../src/uploads/index.js'

export const PARTIAL = 'application/partial-upload'

export interface Seen {
  readonly method: string
  readonly path: string
  readonly search: string | undefined
  readonly headers: RequestHeaders
  readonly size: number
  readonly sha256: string
  readonly context: unknown
}

/** A handler that reads its body as a stream, and notes what it got. */
export function digester(): { readonly handler: Handler<never>, readonly seen: Seen[] } {
  const seen: Seen[] = []
  const handler = async (request: HttpRequest<never>) => {
    const hash = createHash('sha256')
    let size = 0
    for await (const chunk of request.body.stream()) {
      hash.update(chunk)
      size += chunk.byteLength
    }
    const { method, path, search, headers, context } = request
    const sha256 = hash.digest('hex')
    seen.push({ method, path, search, headers, size, sha256, context })
    return json(200, { size, sha256 })
  }
  return { handler, seen }
}

export type Options = Partial<ResumableUploadOptions<never>>

/** A handler with resumable uploads in memory, and requests to it. */
export function setUp(options: Options = {}, own?: Handler<never>) {
  const store = options.store ?? new MemoryStore()
  const blobs = options.blobs ?? new MemoryBlobs()
  const { handler, seen } = digester()
  const upload = resumableUpload<never>(own ?? handler, {
    anonymous: true, owner: (({ headers }: HttpRequest) => headers['x-user'] as string | undefined),
    uploadPath: '/uploads/{id}', ...options, store, blobs,
  })
  const errors: unknown[] = []
  const send = async (
    method: string, path: string, headers: RequestHeaders = {}, body?: unknown,
  ): Promise<InjectedResponse> => inject(
    (path.startsWith('/uploads/') ? upload.resource : upload.create) as Handler,
    {
      method, path, headers, ...body !== undefined && { body },
      onError: (error) => { errors.push(error) },
    },
  )
  return {
    store, blobs: blobs as MemoryBlobs, seen, upload, send, errors,
    /** Creates an upload without content. Returns its path. */
    async create(headers: RequestHeaders = {}): Promise<string> {
      const answer = await send('POST', '/files', { 'upload-complete': '?0', ...headers })
      if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`)
      return String(answer.headers['location'])
    },
    patch: (
      path: string, offset: number, body: unknown, complete = false, headers: RequestHeaders = {},
    ) => send('PATCH', path, {
      'content-type': PARTIAL, 'upload-offset': String(offset),
      'upload-complete': complete ? '?1' : '?0', ...headers,
    }, body),
    head: (path: string, headers: RequestHeaders = {}) => send('HEAD', path, headers),
  }
}

export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The value of a digest field. */
export function digestHeader(bytes: Uint8Array | string): string {
  return `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
}

/** A body whose connection breaks after these chunks. */
export async function* broken(...chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks
  throw new Error('The connection broke')
}
