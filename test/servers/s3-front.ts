import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { listen } from '../kit/listen.js'

/** Kinds of requests, by what the server is asked for. */
export type S3Operation =
  'abort' | 'begin' | 'complete' | 'delete' | 'get' | 'list' | 'other' | 'part' | 'put' | 'uploads'

/** A request that has arrived. */
export interface S3Request {
  readonly operation: S3Operation
  /** Path without the bucket. */
  readonly name: string
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Sends the request to the server behind, and its response to the client. Resolves once the response is sent. */
  forward(options?: S3Forward): Promise<void>
}

/** Changes of a response. */
export interface S3Forward {
  /** Sends the content in chunks of `chunkBytes`, and calls this before each of them. Returns false to stop there. */
  readonly before?: (sentBytes: number) => boolean | Promise<boolean>
  readonly chunkBytes?: number
  /** Replaces headers. */
  readonly headers?: Readonly<Record<string, string>>
}

/** An HTTP server in front of a server of S3, whose requests a test can change. */
export class S3Front {
  /** Handles a request. Default: forwards it. */
  handle: (request: S3Request) => void | Promise<void> = (request) => request.forward()
  readonly requests: S3Operation[] = []
  /** Connections that were opened so far. */
  opened = 0

  private constructor(readonly url: string, readonly close: () => Promise<void>) {}

  static async to(port: number): Promise<S3Front> {
    const server = createServer((req, res) => {
      const [path = '', query = ''] = (req.url ?? '').split('?')
      const operation = operationOf(req.method ?? '', new URLSearchParams(query))
      front.requests.push(operation)
      void front.handle({
        operation,
        name: path.split('/').slice(2).join('/'),
        req,
        res,
        forward: (options) => forward(port, req, res, options),
      })
    })
    server.on('connection', () => { front.opened++ })
    const { url, close } = await listen(server)
    const front: S3Front = new S3Front(url, close)
    return front
  }

  count(operation: S3Operation): number {
    return this.requests.filter((each) => each === operation).length
  }
}

/** Headers with the time of a server whose clock is ahead. */
export function inFuture(ms: number): { readonly date: string } {
  return { date: new Date(Date.now() + ms).toUTCString() }
}

/** Responds with an error in the format of S3. */
export function s3Error(res: ServerResponse, status: number, code: string, message = code): void {
  res.writeHead(status, { 'content-type': 'application/xml' })
  res.end(`<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message></Error>`)
}

function operationOf(method: string, query: URLSearchParams): S3Operation {
  if (method === 'GET') return query.has('list-type') ? 'list' : query.has('uploads') ? 'uploads' : 'get'
  if (method === 'PUT') return query.has('partNumber') ? 'part' : 'put'
  if (method === 'DELETE') return query.has('uploadId') ? 'abort' : 'delete'
  return query.has('uploads') ? 'begin' : query.has('uploadId') ? 'complete' : 'other'
}

function forward(
  port: number,
  req: IncomingMessage,
  res: ServerResponse,
  { before, chunkBytes = 65_536, headers: replaced }: S3Forward = {},
): Promise<void> {
  // Without a signature, because a client that believes in another time signs for that one.
  const { expect: _expect, authorization: _authorization, ...headers } = req.headers
  return new Promise((resolve) => {
    res.on('close', resolve)
    const behind = request({ port, host: '127.0.0.1', method: req.method, path: req.url, headers }, (response) => {
      res.writeHead(response.statusCode ?? 500, { ...response.headers, ...replaced })
      if (before) void sendSlowly(response, res, before, chunkBytes)
      else response.pipe(res)
    })
    behind.on('error', () => {
      res.destroy()
    })
    req.pipe(behind)
  })
}

async function sendSlowly(
  content: AsyncIterable<Buffer>, res: ServerResponse, before: NonNullable<S3Forward['before']>, chunkBytes: number,
): Promise<void> {
  let sent = 0
  const all: Buffer[] = []
  for await (const chunk of content) all.push(chunk)
  for (const bytes = Buffer.concat(all); sent < bytes.length; sent += chunkBytes) {
    if (!await before(sent)) return
    res.write(bytes.subarray(sent, sent + chunkBytes))
  }
  res.end()
}
