import { ServerResponse } from 'node:http'
import type { HostResponse } from './host.js'

const node: Pick<ServerResponse, 'end' | 'write'> = ServerResponse.prototype

/**
 * Ends an answer with a text, behind the head that is written already, in one piece. `end(text)`
 * hands the socket two of them, the second one empty, which takes Node and the system a tenth
 * longer for a small answer; so it is written, let go and ended. Where the host has put something
 * of its own in place of either, that sees the text in one call as it would from any handler.
 */
export function endWith(res: HostResponse, text: string, encoding: BufferEncoding): void {
  const { socket } = res
  if (text === '' || socket === null || res.write !== node.write || res.end !== node.end) {
    res.end(text, encoding)
    return
  }
  res.write(text, encoding)
  // `write` holds back what it has for the rest of this turn, in case that more follows.
  socket.uncork()
  res.end()
}
