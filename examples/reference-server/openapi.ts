import { createHash } from 'node:crypto'
import { describe, errorResponses, responseHeaders, openapi, operation, response } from 'longhaul/openapi'
import { jsonText, type Handler } from 'longhaul'
import { negotiate, notAcceptable } from 'longhaul/http'
import type { Context } from './auth.js'

const INFO = {
  title: 'longhaul reference server',
  version: '1.0.0',
  description: 'Long-running, bulk and streaming HTTP: tasks, jobs, callbacks, users, NDJSON, large files, versions.',
  license: { name: 'MIT', identifier: 'MIT' },
}

const TYPES = ['application/json']

/** Methods that the overview lists. */
const METHODS = new Set(['get', 'post', 'put', 'patch', 'delete'])

/** GET /openapi.json: the mounted routes as an OpenAPI 3.1 document. Public. */
export class ApiDocument {
  #text = ''
  #etag = ''

  readonly handler: Handler<Context> = describe<Context>(({ headers }) => {
    if (negotiate(headers['accept'], TYPES) === undefined) throw notAcceptable(TYPES)
    const sent = { 'etag': this.#etag, 'cache-control': 'no-cache' }
    return headers['if-none-match'] === this.#etag ? { status: 304, headers: sent } : jsonText(200, this.#text, sent)
  }, [operation('GET', {
    summary: 'This document',
    responses: {
      200: response('An OpenAPI 3.1 document', { headers: responseHeaders('ETag'), schema: { type: 'object', required: ['openapi'], properties: { openapi: { type: 'string' } } } }),
      304: response('Not changed. The headers are those of the response 200'),
      ...errorResponses('not_acceptable'),
    },
  })])

  /** Each operation and its summary, as `['GET /api/users', 'A page of users']`. */
  routes: readonly (readonly [route: string, summary: string])[] = []

  /** Describes the server after all routes are mounted. */
  of(server: Handler<Context>): void {
    const document = openapi(server, { info: INFO, servers: [{ url: '/' }] })
    const paths = document['paths'] as Readonly<Record<string, Readonly<Record<string, { readonly summary?: string }>>>>
    this.routes = Object.entries(paths).flatMap(([path, item]) => Object.entries(item)
      .filter(([method]) => METHODS.has(method))
      .map(([method, { summary = '' }]) => [`${method.toUpperCase()} ${path}`, summary] as const))
    this.#text = JSON.stringify(document)
    this.#etag = `"${createHash('sha256').update(this.#text).digest('base64url').slice(0, 22)}"`
  }
}
