// A client of HTTP/2 that writes frames itself, because that of Node completes a stream before it resets it.
import { connect, type Socket } from 'node:net'

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
const [DATA, HEADERS, RST_STREAM, SETTINGS] = [0, 1, 3, 4]
const [END_STREAM, END_HEADERS] = [1, 4]
const CANCEL = Buffer.from([0, 0, 0, 8])

/** One request, on a connection of its own. Its stream has the number 1. */
export class Frames {
  readonly socket: Socket

  constructor(port: number, fields: Readonly<Record<string, string>>) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('error', () => undefined).resume()
    this.socket.write(PREFACE)
    this.write(SETTINGS, 0, 0)
    const all = { ':method': 'POST', ':scheme': 'http', ':authority': 'a', ...fields }
    // Each a literal header that is not indexed (RFC 7541 section 6.2.2).
    const block = Object.entries(all).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)])
    this.write(HEADERS, END_HEADERS, 1, Buffer.concat(block))
  }

  send(content: string): void {
    this.write(DATA, 0, 1, Buffer.from(content))
  }

  end(): void {
    this.write(DATA, END_STREAM, 1)
  }

  reset(): void {
    this.write(RST_STREAM, 0, 1, CANCEL)
  }

  private write(type: number | undefined, flags: number | undefined, stream: number, payload = Buffer.alloc(0)): void {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.byteLength, 0, 3)
    head.writeUInt8(type ?? 0, 3)
    head.writeUInt8(flags ?? 0, 4)
    head.writeUInt32BE(stream, 5)
    this.socket.write(Buffer.concat([head, payload]))
  }
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([Buffer.from([bytes.byteLength]), bytes])
}
