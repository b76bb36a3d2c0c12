import { join } from 'node:path'
import { compose, type Handler, type Policy } from 'longhaul'
import { content } from 'longhaul/content'
import { folderSource } from 'longhaul/files'
import { describe, errorResponses, operation, parameter, response, responseHeaders } from 'longhaul/openapi'
import type { Context } from './auth.js'

/** Folder of the panels that only this server has. */
export const CONSOLE_FOLDER = join(import.meta.dirname, 'console')

/** Options of all texts that this server serves: a client revalidates each, and gets 304 if it has not changed. */
export const HOW = { codings: ['br', 'gzip'], cacheControl: 'no-cache' } as const

/** Adds the headers for texts. Only browsers use them, so the OpenAPI document does not name them. */
export const guarded: Policy<Context> = async (request, next) => {
  const answer = await next(request)
  if (answer) {
    answer.headers['content-security-policy'] ??= "default-src 'none'"
    answer.headers['x-content-type-options'] = 'nosniff'
  }
  return answer
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

const OFFERED = /^[a-z0-9-]+\.(?:js|css)$/

/** GET /console/{file}: the files of `longhaul/console`, and those of the panels of this server. Public. */
export function consoleFiles(page: Handler<Context>): Handler<Context> {
  const own = compose(guarded, content<Context>(folderSource<Context>(CONSOLE_FOLDER, {
    path: ({ params: { file = '' } }) => (OFFERED.test(file) ? file : undefined),
  }), HOW))
  return describe<Context>(
    async (request) => await page(request.with({ mountPath: '/console' })) ?? own(request),
    [fileOperation('A file of the console', ['text/javascript; charset=utf-8', 'text/css; charset=utf-8', 'image/svg+xml'], [parameter('path', 'file')])],
  )
}
