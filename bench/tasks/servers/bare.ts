// The limit: node:http that reads the body and answers constant bytes, those of the flow.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listen } from '../../frame/subject.js'
import { acceptedHeaders, statusHeaders, type Task } from '../flow.js'

const task: Task = {
  taskId: '00000000-0000-4000-8000-000000000000', status: 'completed', message: 'The task is completed.', task: 'report',
  result: { message: 'The report for 2026-10 is ready.', rows: 1002 },
  createdAt: '2026-11-21T10:00:00.000Z', startedAt: '2026-11-21T10:00:00.000Z', finishedAt: '2026-11-21T10:00:00.000Z',
}
const { result: _, startedAt: __, finishedAt: ___, ...young } = { ...task, status: 'processing', message: 'The task was accepted and is being processed.' }
const accepted = Buffer.from(JSON.stringify(young))
const done = Buffer.from(JSON.stringify(task))

const flat = (headers: Record<string, string>, body: Buffer): string[] => [
  'content-type', 'application/json', ...Object.entries(headers).flat(), 'content-length', String(body.length),
]
const acceptedHead = flat(acceptedHeaders(task), accepted)
const doneHead = flat(statusHeaders(task), done)

listen((req: IncomingMessage, res: ServerResponse) => {
  if (req.method === 'GET') {
    res.writeHead(200, doneHead).end(done)
    return
  }
  req.on('data', () => undefined)
  req.on('end', () => { res.writeHead(202, acceptedHead).end(accepted) })
})
