import type { Handler, HttpResponse } from 'longhaul'
import { BODY } from '../tasks/work.js'
import { BareRequest, headersOf } from './request.js'

const JSON_BODY = Buffer.from(BODY)
const ASYNC = headersOf({ prefer: 'respond-async', 'content-type': 'application/json' }, JSON_BODY)

/** Deadline of calls in milliseconds. Valgrind makes a process 50 times slower. */
export const TIMEOUT_MS = 60_000

/** Submits a task and checks that it is accepted. */
export function submit(handler: Handler<Record<never, never>>): Promise<HttpResponse> {
  return call(handler, new BareRequest('POST', '/reports', ASYNC, JSON_BODY), 202)
}

/** Returns a job that accepts eight tasks at a time. */
export function acceptEightAtOnce(handler: Handler<Record<never, never>>): (count: number) => Promise<void> {
  return async (count) => {
    for (let done = 0; done < count; done += 8) await Promise.all(Array.from({ length: 8 }, () => submit(handler)))
  }
}

/** Calls a handler and checks the status of its response. */
export async function call<C>(handler: Handler<C>, request: Parameters<Handler<C>>[0], status: number): Promise<HttpResponse> {
  const response = await handler(request)
  if (response?.status !== status) throw new Error(`wanted ${status}, got ${JSON.stringify(response)}`)
  return response
}
