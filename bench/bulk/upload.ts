import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { userText } from './users.js'

/** Sends the given number of users as one array, as fast as the server reads them. */
export async function uploadUsers(port: number, path: string, count: number): Promise<{ status: number; seconds: number; body: string }> {
  const began = performance.now()
  const upload = request({ port, host: '127.0.0.1', method: 'POST', path, headers: { 'content-type': 'application/json' }, agent: false })
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>
  let refused = false
  answered.then(() => { refused = true }, () => { refused = true })
  let text = '['
  for (let index = 0; index < count; index++) {
    text += index === 0 ? userText(index) : `,${userText(index)}`
    if (text.length < 65_536) continue
    // An answer before the end refuses the rest.
    if (!upload.write(text)) await Promise.race([once(upload, 'drain'), answered])
    if (refused) break
    text = ''
  }
  upload.end(`${text}]`)
  const [response] = await answered
  let body = ''
  for await (const chunk of response as AsyncIterable<Buffer>) body += String(chunk)
  return { status: response.statusCode ?? 0, seconds: (performance.now() - began) / 1000, body }
}
