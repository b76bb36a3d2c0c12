// Users in memory behind a repository whose every call can be made to fail, and a client of the bulk handlers.
import { httpError, isHttpError, type HttpError } from '../../../src/http/errors.js'
import type { Handler, HttpResponse } from '../../../src/http/exchange.js'
import { errorResponse } from '../../../src/http/respond.js'
import type { BulkItem } from '../../../src/bulk/index.js'
import type { ReportSummary } from '../../../src/wire/report.js'
import type { Call, Update } from '../../../src/repositories/repository.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { fakeRequest, type Fake } from './request.js'

export interface Draft { readonly name: string, readonly email: string }
export interface User extends Draft { readonly id: number, readonly role: string }
export interface RoleChange { readonly userId: number, readonly role: string }

export const draft = jsonSchema<Draft>({
  type: 'object',
  required: ['name', 'email'],
  properties: { name: { type: 'string' }, email: { type: 'string', minLength: 3 } },
})
export const roleChange = jsonSchema<RoleChange>({
  type: 'object',
  required: ['userId', 'role'],
  properties: { userId: { type: 'integer' }, role: { enum: ['admin', 'editor', 'viewer'] } },
})

/** Users, those of SPEC 2.1. `fails` may throw before a draft or a change is taken. */
export class Users {
  users = new Map<number, User>()
  calls: string[] = []
  fails: (value: { readonly name?: string, readonly role?: string }, call: Call) => void = () => undefined
  /** What the transaction fails with once all was written. */
  commit: () => void = () => undefined
  private next = 1

  constructor(count = 0) {
    for (let at = 0; at < count; at++) this.put({ name: `User ${at + 1}`, email: `user-${at + 1}@example.com` })
  }

  get emails(): string[] {
    return [...this.users.values()].map(({ email }) => email)
  }

  put(its: Draft): User {
    const user = { ...its, id: this.next++, role: 'viewer' }
    this.users.set(user.id, user)
    return user
  }

  create(its: Draft, call: Call): User {
    this.calls.push('create')
    const outcome = this.take(its, call)
    if (isHttpError(outcome)) throw outcome
    return outcome
  }

  createMany(many: readonly Draft[], call: Call): (User | HttpError)[] {
    this.calls.push(`createMany ${many.length}`)
    return many.map((its) => this.take(its, call))
  }

  update(id: number, change: { readonly role: string }, call: Call): User | undefined {
    this.calls.push('update')
    this.fails(change, call)
    const old = this.users.get(id)
    if (old === undefined) return undefined
    const user = { ...old, ...change }
    this.users.set(id, user)
    return user
  }

  updateMany(updates: readonly Update<number, { readonly role: string }>[], call: Call): (User | undefined)[] {
    return updates.map(({ id, change }) => this.update(id, change, call))
  }

  async transaction<R>(work: (inside: Users) => Promise<R>): Promise<R> {
    this.calls.push('begin')
    const before = new Map(this.users)
    try {
      const result = await work(this)
      this.commit()
      this.calls.push('commit')
      return result
    } catch (error) {
      this.users = before
      this.calls.push('rollback')
      throw error
    }
  }

  private take(its: Draft, call: Call): User | HttpError {
    this.fails(its, call)
    if (this.emails.includes(its.email))
      return httpError('conflict', {
        message: 'The email is taken.',
        details: [{ pointer: '/email', message: 'is taken' }],
      })
    return this.put(its)
  }
}

/** Only some of its methods, for a repository that has no others. */
export function only<K extends 'create' | 'createMany' | 'update' | 'updateMany' | 'transaction'>(
  users: Users,
  ...names: K[]
): Pick<Users, K> {
  const its: Record<string, unknown> = Object.fromEntries(names.map((name) => [name, users[name].bind(users)]))
  // Inside of its transaction it has no more.
  if ('transaction' in its)
    its['transaction'] = (work: (inside: unknown) => Promise<unknown>) => users.transaction(() => work(its))
  return its as unknown as Pick<Users, K>
}

export const person = (at: number): Draft => ({ name: `Person ${at}`, email: `person-${at}@example.com` })
export const people = (count: number): Draft[] => Array.from({ length: count }, (_, at) => person(at))

export interface Told {
  readonly status: number
  readonly headers: HttpResponse['headers']
  readonly text: string
  readonly json: {
    error?: string
    code?: string
    details?: unknown
    position?: unknown
    summary: ReportSummary
    items: BulkItem[]
  }
}

export interface Asked extends Omit<Fake, 'body'> {
  readonly method?: string
  readonly query?: string
  /** Sent as JSON; text and bytes as they are. */
  readonly body?: unknown
  /** The pieces of a body without Content-Length. */
  readonly pieces?: readonly (string | Uint8Array)[]
  readonly signal?: AbortSignal
  /** The answer is no JSON. */
  readonly raw?: boolean
}

/** Asks a handler as a binding does, and reads the whole answer. */
export async function ask(
  handler: Handler,
  { method = 'POST', query = '', body, pieces, headers, signal, raw = false, ...rest }: Asked,
): Promise<Told> {
  const sent = pieces
    ? Buffer.concat(pieces.map((piece) => Buffer.from(piece as string)))
    : typeof body === 'string' || body instanceof Uint8Array
      ? body
      : JSON.stringify(body)
  const length = pieces || rest.parsed ? {} : { 'content-length': String(Buffer.byteLength(sent ?? '')) }
  const fake = fakeRequest({
    ...rest,
    body: sent ?? '',
    headers: { 'content-type': 'application/json', ...length, ...headers },
  })
  const source = pieces && {
    ...fake.body,
    stream: async function* () {
      for (const piece of pieces) yield Buffer.from(piece as string)
    },
  }
  const request = {
    ...fake,
    method,
    query: new URLSearchParams(query),
    ...(source && { body: source }),
    ...(signal && { signal }),
  }
  let response: HttpResponse | undefined
  try {
    response = await handler(request)
  } catch (error) {
    response = errorResponse(error, request)
  }
  if (response === undefined) throw new Error('The handler passed it on')
  let text = ''
  if (typeof response.body === 'string') text = response.body
  else if (response.body instanceof Uint8Array) text = Buffer.from(response.body).toString()
  else if (response.body !== undefined)
    for await (const piece of response.body) text += typeof piece === 'string' ? piece : Buffer.from(piece).toString()
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: (text === '' || (raw && response.status < 400) ? {} : JSON.parse(text)) as Told['json'],
  }
}

/** The statuses of the items, in their order. */
export const statuses = ({ json }: Told): number[] => json.items.map(({ status }) => status)
/** The codes. */
export const codes = ({ json }: Told): (string | undefined)[] => json.items.map(({ error }) => error?.code)
