// Things to throw that must not be told, parts of a host that throw them, and what a client may see of it.
import assert from 'node:assert/strict'
import type { BodySource, Handler } from '../../../src/http/exchange.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { assertTellsNothing } from '../../http/kit/no-leaks.js'
import { ask, type Ask } from './request.js'

export const SECRET =
  'connect ECONNREFUSED 127.0.0.1:6379 secret at /home/ann/app/node_modules/ioredis/built/redis.js:12'
/**
 * What may be thrown: an error with a stack, with fields of a driver, a text, nothing, and one that
 * can't even be looked at.
 */
export const THROWN: readonly (() => unknown)[] = [
  () => new Error(SECRET),
  () => Object.assign(new TypeError(SECRET), { code: 'ERR_SECRET', status: 418, sql: SECRET, path: '/home/ann' }),
  () => SECRET,
  () => undefined,
  () =>
    new Proxy(
      {},
      {
        get: () => {
          throw new Error(SECRET)
        },
      },
    ),
  () => new AggregateError([new Error(SECRET)], SECRET),
  () => new StoreUnavailableError(SECRET, { cause: new Error(SECRET) }),
]

export function bodyOf(text: string): BodySource {
  const bytes = Buffer.from(text)
  return { parsed: undefined, bytes: async () => bytes, async * stream() { yield bytes } }
}
export const post = (text: string, headers = {}): Ask => ({
  method: 'POST',
  path: '/',
  body: bodyOf(text),
  headers: { 'content-type': 'application/json', ...headers },
})

/** Whose every method fails, from the first call or after `calls` good ones. */
export function failing<T extends object>(real: T, fail: () => unknown, but: readonly string[] = [], calls = 0): T {
  let left = calls
  return new Proxy(real, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function' || but.includes(String(name))) return member
      return async (...args: unknown[]): Promise<unknown> => {
        if (left-- > 0) return await Reflect.apply(member, target, args) as unknown
        throw fail()
      }
    },
  })
}

/** What a handler tells its own `onError`, and whether a body that is streamed is one that can be read to its end. */
interface Elsewhere {
  readonly heard?: readonly unknown[]
  readonly whole?: boolean
}

/** A body that can be read to its end. */
async function textOf(body: AsyncIterable<Uint8Array | string>): Promise<string | undefined> {
  const pieces: Uint8Array[] = []
  try {
    for await (const piece of body) pieces.push(Buffer.from(piece as Uint8Array))
    return Buffer.concat(pieces).toString()
  } catch {
    return undefined
  }
}

/** Asserts it for an answer as JSON and as a problem; the status, 0 for an answer that was cut in its body. */
export async function tellsNothing(
  handler: Handler,
  what: Ask,
  where: string,
  { heard = [], whole = false }: Elsewhere = {},
): Promise<number> {
  let status = 0
  for (const problem of [false, true]) {
    const answer = await ask(handler, {
      ...what,
      headers: { ...what.headers, ...(problem && { accept: 'application/problem+json, */*;q=0.1' }) },
    })
    if (answer.status < 400 && typeof answer.body === 'object') {
      // Its head is out: what is left is that it ends visibly.
      const text = await textOf(answer.body as AsyncIterable<Uint8Array | string>)
      assert.equal(text !== undefined, whole, where)
      assert.doesNotMatch(text ?? '', /secret/, where)
      continue
    }
    status = answer.status
    if (answer.status >= 400) {
      assertTellsNothing(
        { status, text: typeof answer.body === 'string' ? answer.body : '', headers: answer.headers },
        { problem },
        where,
      )
      if (status >= 500) assert.ok(answer.heard.length + heard.length > 0, `${where}: onError hears of it`)
    } else assert.doesNotMatch(typeof answer.body === 'string' ? answer.body : '', /secret/, where)
  }
  return status
}
