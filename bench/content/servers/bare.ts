// The limit: a stream of fs into the answer, with the fields that a client needs to resume.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { listen } from '../../frame/subject.js'

const root = process.env['BENCH_FOLDER'] as string

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const path = join(root, req.url as string)
  const { size, mtimeMs } = await stat(path)
  const range = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range ?? '')
  const start = range === null ? 0 : Number(range[1])
  const end = range === null ? size - 1 : Number(range[2])
  const head = [
    'content-type', 'application/octet-stream', 'content-length', String(end - start + 1), 'etag', `"${size.toString(36)}-${mtimeMs.toString(36)}"`,
    'last-modified', new Date(mtimeMs).toUTCString(), 'accept-ranges', 'bytes',
  ]
  if (range !== null) head.push('content-range', `bytes ${start}-${end}/${size}`)
  res.writeHead(range === null ? 200 : 206, head)
  pipeline(createReadStream(path, { start, end }), res, () => undefined)
}

listen((req, res) => void answer(req, res))
