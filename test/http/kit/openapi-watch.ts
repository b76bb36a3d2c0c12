// Compares every answer of a server in this process with the OpenAPI document that it gives out,
// while other tests talk to it.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { ERROR_CODES } from '../../../src/http/errors.js'
import { dereference } from './dereference.js'

type Fragment = Readonly<Record<string, unknown>>

interface Described {
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string
        readonly headers?: Fragment
        readonly content?: Readonly<Record<string, Fragment>>
        readonly $ref?: string
      }
    >
  >
}

/** Of the connection and the framing, said by the content of the document, or only for caches, proxies and browsers. */
const UNSAID = new Set([
  'cache-control', 'x-accel-buffering', 'incremental', 'x-content-type-options',
  'content-security-policy', 'referrer-policy', 'cross-origin-opener-policy', 'date', 'connection',
  'keep-alive', 'transfer-encoding', 'content-length', 'content-type', 'content-encoding',
  'trailer', 'accept-encoding', 'vary', 'access-control-allow-origin',
  'access-control-expose-headers', 'access-control-allow-credentials',
  'access-control-allow-methods', 'access-control-allow-headers', 'access-control-max-age',
])
const LONGEST = 4_000_000
const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
}

/** Codes of requests that belong to no operation: their path is malformed, or the server of Node rejects them. */
const OF_NO_OPERATION = new Set(['invalid_path', 'expectation_failed'])

/** What one server answered otherwise than its document says. */
export class AnswerWatch {
  readonly faults = new Set<string>()
  #seen = 0
  readonly #pending = new Set<Promise<void>>()
  readonly #port: number
  readonly #paths: readonly {
    readonly pattern: RegExp
    readonly template: string
    readonly methods: Readonly<Record<string, Described>>
  }[]
  readonly #ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: false })

  private constructor(url: string, document: Fragment) {
    this.#port = Number(new URL(url).port)
    this.#ajv.addSchema(document, 'document')
    const paths = Object.entries(document['paths'] as Record<string, Record<string, Described>>)
    this.#paths = paths
      .sort(([a], [b]) => a.split('{').length - b.split('{').length)
      .map(([template, methods]) => ({
        template,
        methods,
        pattern: new RegExp(`^${template.replace(/[.]/g, '\\.').replace(/\{[^}]+\}/g, '[^/]+')}/?$`),
      }))
    subscribe('http.server.request.start', this.#begun)
  }

  static async of(url: string): Promise<AnswerWatch> {
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as Fragment
    return new AnswerWatch(url, dereference<Fragment>(document))
  }

  /** How many answers were compared. */
  get seen(): number {
    return this.#seen
  }

  /** Resolves once what has begun has been compared. */
  async stop(): Promise<void> {
    unsubscribe('http.server.request.start', this.#begun)
    await Promise.all(this.#pending)
  }

  readonly #begun = (message: unknown): void => {
    const { request, response, server } = message as {
      request: IncomingMessage
      response: ServerResponse
      server: Server
    }
    if ((server.address() as AddressInfo | null)?.port !== this.#port) return
    const pieces: Buffer[] = []
    let length = 0
    const keep = (piece: unknown): void => {
      if (typeof piece !== 'string' && !(piece instanceof Uint8Array)) return
      length += piece.length
      if (length <= LONGEST) pieces.push(Buffer.from(piece as string))
    }
    const { write, end } = response
    response.write = function (this: ServerResponse, ...args: unknown[]) {
      keep(args[0])
      return write.apply(this, args as never)
    } as ServerResponse['write']
    response.end = function (this: ServerResponse, ...args: unknown[]) {
      keep(args[0])
      return end.apply(this, args as never)
    } as ServerResponse['end']
    const whole = new Promise<boolean>((resolve) =>
      response
        .once('finish', () => {
          resolve(true)
        })
        .once('close', () => {
          resolve(false)
        }),
    )
    const compared = whole.then((finished) => {
      const where = `${request.method ?? ''} ${request.url ?? ''} -> ${response.statusCode}`
      try {
        const head = (response as unknown as { _header: string | null })._header
        if (head === null) return
        this.#compare(
          request,
          response.statusCode,
          fieldsOf(head),
          finished && length <= LONGEST ? Buffer.concat(pieces) : undefined,
        )
        this.#seen++
      } catch (error) {
        this.faults.add(`${where}: ${error instanceof Error ? error.message : String(error)}`)
      }
      this.#pending.delete(compared)
    })
    this.#pending.add(compared)
  }

  #compare(
    request: IncomingMessage,
    status: number,
    fields: ReadonlyMap<string, string>,
    body: Buffer | undefined,
  ): void {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    const route = this.#paths.find(({ pattern }) => pattern.test(path))
    const method = (request.method ?? '').toLowerCase()
    const name = route?.methods[method] ? method : method === 'head' ? 'get' : method
    const operation = route?.methods[name]
    // An answer to HEAD names the coding of what it does not have.
    const text = body === undefined || method === 'head' ? undefined : decoded(body, fields.get('content-encoding'))
    if (route === undefined || operation === undefined) {
      // A path that is not ours, a method that is not allowed, and OPTIONS: nothing that a document has a place for.
      if (status >= 400 && text !== undefined && method !== 'head') this.#error(fields, text)
      return
    }
    const key = String(status) in operation.responses ? String(status) : 'default'
    if (key === 'default' && status < 400) throw new Error('this status is not described')
    const response = operation.responses[key] ?? { description: '' }
    if (status >= 400 && text !== undefined) this.#code(response.description, text)
    // The response `default` has the headers of all errors, and a 304 has those of the 200.
    const others = status === 304 ? '200' : status >= 400 ? 'default' : key
    const headers = { ...response.headers, ...operation.responses[others]?.headers }
    const told = new Set(Object.keys(headers).map((field) => field.toLowerCase()))
    // The document says it of errors, which a client reports by it.
    if (status < 400) told.add('x-request-id')
    for (const field of fields.keys())
      if (!told.has(field) && !UNSAID.has(field)) throw new Error(`the field ${field} is not described`)
    if (text === undefined || method === 'head' || (text.length === 0 && response.content === undefined)) return
    const type = fields.get('content-type') ?? ''
    const described = Object.keys(response.content ?? {}).filter((each) => essence(each) === essence(type))
    const exact = described.filter((each) => each.replaceAll(' ', '') === type.replaceAll(' ', ''))
    // A media type range: the content has a type of its own, such as that of a file.
    if (described.length === 0 && response.content?.['*/*'] !== undefined) return
    if (described.length === 0) throw new Error(`the content type ${JSON.stringify(type)} is not described`)
    if (!/[/+]json$/.test(essence(type))) return
    const refs = (exact.length > 0 ? exact : described).map((each) =>
      pointer('paths', route.template, name, 'responses', key, 'content', each, 'schema'),
    )
    this.#validate(refs, text)
  }

  /** Codes of the application need no description. */
  #code(description: string, text: string): void {
    const { code } = JSON.parse(text) as { readonly code: string }
    if (!(code in ERROR_CODES) || code === 'unprocessable' || OF_NO_OPERATION.has(code)) return
    if (!description.includes(`\`${code}\``)) throw new Error(`the code ${code} is not described`)
  }

  #error(fields: ReadonlyMap<string, string>, text: string): void {
    const problem = essence(fields.get('content-type') ?? '') === 'application/problem+json'
    this.#validate([pointer('components', 'schemas', problem ? 'Problem' : 'Error')], text)
  }

  /** One of them has to fit. */
  #validate(refs: readonly string[], text: string): void {
    const value: unknown = JSON.parse(text)
    const wrong = refs.map((ref) => {
      const validate = this.#ajv.getSchema(ref)
      if (validate === undefined) throw new Error(`the document has nothing at ${ref}`)
      return validate(value) === true ? undefined : this.#ajv.errorsText(validate.errors)
    })
    if (wrong.every((each) => each !== undefined)) throw new Error(`${wrong.join(' or ')} in ${text.slice(0, 300)}`)
  }
}

function pointer(...parts: readonly string[]): string {
  return `document#/${parts.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`
}

function essence(type: string): string {
  return (type.split(';', 1)[0] ?? '').trim().toLowerCase()
}

function fieldsOf(head: string): Map<string, string> {
  return new Map(head.split('\r\n').slice(1).filter((line) => line.includes(':')).map((line) => {
    const at = line.indexOf(':')
    return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
  }))
}

function decoded(body: Buffer, coding: string | undefined): string {
  return (coding === undefined || body.length === 0 ? body : DECODERS[coding]?.(body) ?? body).toString()
}
