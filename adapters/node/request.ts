import type { IncomingMessage } from 'node:http'
import type { HttpRequest, RequestHeaders, ResponseHeaders } from '../../src/http/exchange.js'
import { httpError } from '../../src/http/errors.js'
import { BaseRequest, cleanMountPath, pathUnder, splitTarget } from '../../src/http/request.js'
import { NodeBody } from './body.js'
import { sendInformation } from './head.js'
import {
  HANDED_ON, isGone, type HostRequest, type HostResponse, type NodeRaw,
} from './host.js'

/** The path of a request, and the part of it that belongs to the framework. */
export interface Place {
  /** The whole path, percent-encoded. */
  readonly path: string
  /** `''`, or the query with its `?`. */
  readonly search: string
  readonly mountPath: string
}

/** Facts that your framework knows about one request. */
export interface CallFacts<C> {
  /** The body as your framework parsed it. Used only if the body was read before. */
  readonly body?: unknown
  /** Becomes `request.context`. */
  readonly context?: C
  /** Start of the path under which this handler is mounted, as clients see it. */
  readonly mountPath?: string
  /** Path parameters of your framework's router, decoded. */
  readonly params?: Readonly<Record<string, unknown>>
}

interface RequestParts<C> {
  readonly facts?: CallFacts<C> | undefined
  /** `true` if the client waits for a 100. Default `false`. */
  readonly isWaiting?: boolean | undefined
  readonly makeContext: (req: HostRequest) => C
}

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({})

/** A request of node:http as a handler sees it. Properties that cost time are made when first read. */
export class NodeRequest<C> extends BaseRequest implements HttpRequest<C> {
  readonly req: HostRequest
  readonly res: HostResponse
  readonly method: string
  readonly path: string
  readonly mountPath: string
  readonly search: string
  readonly body: NodeBody
  /** True if the whole response was written, even if the connection has not sent it yet. */
  answered = false
  /** Caller that limits count, of the principal that `authenticate` has found. */
  caller: string | undefined
  private readonly facts: CallFacts<C> | undefined
  private readonly makeContext: (req: HostRequest) => C
  private madeHeaders: RequestHeaders | undefined
  private madeParams: Readonly<Record<string, string>> | undefined
  private madeQuery: URLSearchParams | undefined
  private madeSignal: AbortSignal | undefined
  private madeContext: { readonly value: C } | undefined

  constructor(
    req: HostRequest, res: HostResponse, place: Place,
    { facts, isWaiting = false, makeContext }: RequestParts<C>,
  ) {
    super()
    this.req = req
    this.res = res
    this.method = req.method as string
    this.facts = facts
    this.makeContext = makeContext
    this.path = place.path
    this.mountPath = place.mountPath
    this.search = place.search
    this.body = new NodeBody(
      req, res, facts !== undefined && 'body' in facts ? facts.body : req.body, isWaiting,
    )
  }

  get headers(): RequestHeaders { return this.madeHeaders ??= headersOf(this.req) }

  get params(): Readonly<Record<string, string>> {
    return this.madeParams ??= textParams(this.facts?.params ?? this.req.params)
  }

  get query(): URLSearchParams { return this.madeQuery ??= new URLSearchParams(this.search) }

  get signal(): AbortSignal { return this.madeSignal ??= this.watchClient() }

  get gone(): boolean {
    return this.madeSignal?.aborted ?? (isGone(this.req, this.res) && this.leftEarly)
  }

  get context(): C {
    if (this.madeContext === undefined) {
      const own = this.facts?.context ?? this.makeContext(this.req)
      const before = this.req[HANDED_ON]
      this.madeContext = {
        value: before === undefined ? own : { ...before.context as object, ...own },
      }
    }
    return this.madeContext.value
  }

  get peerAddress(): string | undefined { return this.req.socket.remoteAddress }

  get raw(): NodeRaw { return { req: this.req, res: this.res } }

  inform(status: number, headers: ResponseHeaders): void {
    if (!this.answered) sendInformation(this.req, this.res, status, headers)
  }

  private get leftEarly(): boolean {
    return !this.answered && !this.res.writableFinished
  }

  private watchClient(): AbortSignal {
    const controller = new AbortController()
    const left = (): void => {
      if (this.leftEarly) controller.abort()
    }
    if (isGone(this.req, this.res)) left()
    else this.res.once('close', left)
    return controller.signal
  }
}

/** Returns path parameters as strings. Express 5 has a list for a wildcard. */
function textParams(params: unknown): Readonly<Record<string, string>> {
  if (typeof params !== 'object' || params === null) return NO_PARAMS
  const text: Record<string, string> = {}
  for (const [name, value] of Object.entries(params)) {
    if (typeof value === 'string') text[name] = value
    else if (Array.isArray(value)) text[name] = value.join('/')
  }
  return text
}

/**
 * Headers that a decision depends on. Node silently keeps the first value of a repeated header, but
 * another server or proxy may have read the last one.
 */
const SINGLE = [
  'host', 'authorization', 'proxy-authorization', 'content-type', 'if-modified-since',
  'if-unmodified-since',
]
const LENGTHS = SINGLE.reduce((bits, { length }) => bits | (1 << length), 0)

/** Returns the headers as Node gives them, with a list for a repeated header of `SINGLE`. */
function headersOf({ headers, rawHeaders }: IncomingMessage): RequestHeaders {
  let seen = 0
  let repeated = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (((LENGTHS >> name.length) & 1) === 0) continue
    const index = SINGLE.indexOf(name.toLowerCase())
    if (index < 0) continue
    repeated |= seen & (1 << index)
    seen |= 1 << index
  }
  return repeated === 0 ? headers : withLists(headers, rawHeaders, repeated)
}

function withLists(
  headers: RequestHeaders, rawHeaders: readonly string[], repeated: number,
): RequestHeaders {
  const lists = Object.create(null) as Record<string, string[] | undefined>
  SINGLE.forEach((name, at) => {
    if ((repeated & (1 << at)) !== 0) lists[name] = []
  })
  for (let at = 0; at < rawHeaders.length; at += 2) {
    lists[(rawHeaders[at] as string).toLowerCase()]?.push(rawHeaders[at + 1] as string)
  }
  return { ...headers, ...lists }
}

const SLASH = 0x2f
/** Frameworks read targets with these characters in several ways. RFC 9112 allows none of them. */
const ODD = /[\0- #\x7f]|\xa0$/
const ABSOLUTE = /^https?:\/\/(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?(?:[/?][^\\]*)?$/i

/**
 * Reads the target that your framework sees now (RFC 9112 section 3.2). A guard of the framework
 * has seen the same path.
 * @throws {HttpError} 400 `bad_request`: the framework may read this target in another way.
 */
export function targetOf({ method, url = '' }: HostRequest): ReturnType<typeof splitTarget> {
  const isPath = url.charCodeAt(0) === SLASH
  if (!ODD.test(url) && (isPath || url === '*' || method === 'CONNECT' || ABSOLUTE.test(url))) {
    return splitTarget(url)
  }
  throw httpError('bad_request', {
    message: 'The target must be a path, or a URL that starts with http: or https: and has a plain host.',
  })
}

/**
 * Finds where a request of node:http, Express or Connect is. The path is what the framework has
 * removed, and `req.url`. Middleware may have rewritten `req.url`, and later guards see only that.
 * @param mountPath - the path that clients see in place of the one that the framework has removed
 */
export function placeOf(req: HostRequest, mountPath: string | undefined): Place {
  const { path: local, search } = targetOf(req)
  let path = local
  let removed = ''
  if (req.originalUrl !== undefined && req.originalUrl !== req.url) {
    const { path: sent } = splitTarget(req.originalUrl)
    removed = req.baseUrl === undefined ? removedFrom(sent, local) : cleanMountPath(req.baseUrl)
    path = pathBelow(removed, local, sent)
  }
  if (mountPath === undefined) return { path, search, mountPath: removed }
  return { path: pathUnder(mountPath, path, removed), search, mountPath }
}

/** Returns the start of the path that a framework has removed without noting it. */
export function removedFrom(sent: string, local: string): string {
  if (sent.endsWith(local)) return cleanMountPath(sent.slice(0, sent.length - local.length))
  return local === '/' ? cleanMountPath(sent) : ''
}

/** Joins both parts of a path. Frameworks add a slash if nothing is left. */
export function pathBelow(removed: string, local: string, sent: string): string {
  return local === '/' && sent === removed ? sent : removed + local
}
