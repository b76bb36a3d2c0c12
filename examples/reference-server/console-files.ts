import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { describe, errorResponses, responseHeaders, operation, parameter, response } from 'longhaul/openapi'
import { compose, type Handler, type Policy } from 'longhaul'
import { content, type ContentSource } from 'longhaul/content'
import { folderSource } from 'longhaul/files'
import type { Context } from './auth.js'

/** Folder of the files of the console. */
export const CONSOLE_FOLDER = join(import.meta.dirname, 'console')

/** Content security policy: a page may load its own files and call its own server only. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
  "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
].join('; ')

const GUARDS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

/** Adds the headers for pages and scripts. Only browsers use them, so the OpenAPI document does not name them. */
export const guarded: Policy<Context> = async (request, next) => {
  const answer = await next(request)
  if (answer) Object.assign(answer.headers, GUARDS)
  return answer
}

/** Options of all files of the console: a client revalidates each file, and gets 304 if it has not changed. */
export const HOW = { codings: ['br', 'gzip'], cacheControl: 'no-cache' } as const

/** Returns a source for a text in memory. */
export function textSource(text: string, type: string): ContentSource {
  const bytes = Buffer.from(text)
  return {
    size: bytes.byteLength, type, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
    open: (start, end) => [bytes.subarray(start, end)],
  }
}

/** The OpenAPI description of a page or file of the console. */
export function fileOperation(summary: string, mediaTypes: readonly string[], parameters?: Parameters<typeof operation>[1]['parameters']) {
  const told = responseHeaders('ETag', 'Last-Modified', 'Accept-Ranges')
  return operation('GET', {
    summary, ...parameters && { parameters },
    responses: {
      200: response('All of it', { headers: told, schema: { type: 'string' }, mediaTypes: [...mediaTypes] }),
      206: response('The part asked for', { headers: { ...told, ...responseHeaders('Content-Range') }, schema: {}, mediaTypes: [...mediaTypes, 'multipart/byteranges'] }),
      304: response('Not changed. The headers are those of the response 200'),
      ...errorResponses('not_acceptable', 'precondition_failed', 'range_not_satisfiable', ...parameters ? ['not_found'] as const : []),
    },
  })
}

const OFFERED = /^[a-z0-9-]+\.(?:js|css|svg)$/

/** GET /console/{file}: scripts, styles and the icon, as they are in the folder. Public. */
export const consoleFiles: Handler<Context> = compose(guarded, describe<Context>(
  content<Context>(folderSource<Context>(CONSOLE_FOLDER, {
    path: ({ params: { file = '' } }) => (OFFERED.test(file) ? file : undefined),
  }), HOW),
  [fileOperation('A file of the console', ['text/javascript; charset=utf-8', 'text/css; charset=utf-8', 'image/svg+xml'], [parameter('path', 'file')])],
))
