// By hand: node:http and a Map.
import type { ServerResponse } from 'node:http'
import { listen } from '../../frame/subject.js'
import { accept, acceptedHeaders, find, statusHeaders } from '../flow.js'
import type { Input } from '../work.js'

const PREFIX = '/tasks/'

function send(res: ServerResponse, status: number, headers: Record<string, string>, value: unknown): void {
  const body = JSON.stringify(value)
  res.writeHead(status, { 'content-type': 'application/json', ...headers, 'content-length': Buffer.byteLength(body) })
  res.end(body)
}

listen((req, res) => {
  const url = req.url ?? ''
  if (req.method === 'POST' && url === '/reports') {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      let input: Input
      try {
        input = JSON.parse(Buffer.concat(chunks).toString()) as Input
      } catch {
        return send(res, 400, {}, { error: 'The body is not valid JSON.', code: 'malformed_json' })
      }
      const task = accept(input)
      send(res, 202, acceptedHeaders(task), task)
    })
    return
  }
  const task = req.method === 'GET' && url.startsWith(PREFIX) ? find(url.slice(PREFIX.length)) : undefined
  if (task) send(res, 200, statusHeaders(task), task)
  else send(res, 404, {}, { error: 'There is no such task.', code: 'task_not_found' })
})
