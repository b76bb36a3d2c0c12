import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { HostResponse } from './host.js'

/**
 * Calls `act` just before the head of a host's answer is sent, by `writeHead` in any form, or by
 * the first write, end or flush. All fields of the host are set by then, so `act` may read, join
 * and add fields.
 */
export function atHead(res: HostResponse, act: () => void): void {
  const write = res.writeHead.bind(res) as (...args: unknown[]) => ServerResponse
  const writeHead = (status: unknown, ...rest: unknown[]): ServerResponse => {
    if (res.headersSent) return write(status, ...rest)
    const [first, second] = rest
    setAll(res, typeof first === 'string' ? second : second ?? first)
    act()
    // A host whose first try is refused here (a bad status) comes again with its error page.
    return typeof first === 'string' ? write(status, first) : write(status)
  }
  res.writeHead = writeHead
}

/**
 * Arguments of `writeHead`: an object, a flat list of names and values, or a list of pairs. Of a
 * list the second of a name is added.
 */
function setAll(res: HostResponse, fields: unknown): void {
  if (!Array.isArray(fields)) {
    for (const [name, value] of Object.entries((fields ?? {}) as OutgoingHttpHeaders)) res.setHeader(name, value as string)
    return
  }
  const list: unknown[] = Array.isArray(fields[0]) ? fields.flat(1) : fields
  const names = new Set<string>()
  for (let at = 0; at < list.length; at += 2) {
    const [name, value] = [String(list[at]), list[at + 1] as string | string[]]
    if (names.has(name.toLowerCase())) res.appendHeader(name, value)
    else res.setHeader(name, value)
    names.add(name.toLowerCase())
  }
}
