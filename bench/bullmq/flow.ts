import { Agent, request } from 'node:http'

const agent = new Agent({ keepAlive: true, maxSockets: 32 })
const BODY = '{"month":"2026-10"}'

/** Number of concurrent flows. */
const AT_ONCE = 32
/** Pause between two polls of one task, in milliseconds. */
const POLL_MS = 5

/** Submits `count` tasks and polls each until it shows its result; resolves to the seconds that took. */
export async function flow(port: number, count: number): Promise<number> {
  const began = performance.now()
  let left = count
  const one = async (): Promise<void> => {
    while (left-- > 0) {
      const { headers } = await ask(port, 'POST', '/reports', 202)
      const path = headers.location ?? ''
      while (!(await ask(port, 'GET', path, 200)).text.includes('The report is ready.')) await new Promise((resolve) => { setTimeout(resolve, POLL_MS) })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  return (performance.now() - began) / 1000
}

function ask(port: number, method: string, path: string, status: number): Promise<{ headers: { location?: string | undefined }, text: string }> {
  return new Promise((resolve, reject) => {
    const headers = method === 'POST' ? { 'prefer': 'respond-async', 'content-type': 'application/json', 'content-length': BODY.length } : {}
    const outgoing = request({ port, host: '127.0.0.1', method, path, agent, headers }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (part: string) => { text += part }).on('end', () => {
        if (answer.statusCode === status) resolve({ headers: answer.headers, text })
        else reject(new Error(`${method} ${path}: ${String(answer.statusCode)} ${text}`))
      })
    })
    outgoing.on('error', reject)
    outgoing.end(method === 'POST' ? BODY : undefined)
  })
}
