import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { addResponseHeaders, describe, header } from 'longhaul/openapi'
import { compose, type Handler, type HttpRequest, type Policy } from 'longhaul'
import { consolePage, type ConsolePanel } from 'longhaul/console'
import { content } from 'longhaul/content'
import { negotiate, notAcceptable } from 'longhaul/http'
import type { Context } from './auth.js'
import { CONSOLE_FOLDER, fileOperation, guarded, HOW } from './console-files.js'
import type { ApiDocument } from './openapi.js'

const OFFERS = ['text/html', 'text/plain']

/** `Vary`, and the link to the description of the API (RFC 8631). */
const told: Policy<Context> = Object.assign<Policy<Context>, Pick<Policy<Context>, 'describe'>>(async (request, next) => {
  const answer = await next(request)
  if (answer) {
    const { vary } = answer.headers
    answer.headers['vary'] = [...vary === undefined ? [] : [vary].flat(), 'Accept', 'Host'].join(', ')
    answer.headers['link'] = '</openapi.json>; rel="service-desc"; type="application/json"'
  }
  return answer
}, { describe: (described) => addResponseHeaders(described, { Link: header('Where the OpenAPI document is (RFC 8631)') }) })

/** The panels of this server, with their place and the file of their content. */
const PANELS = [
  ['new-task', 'New task', 'first'],
  ['upload', 'NDJSON upload', 'left'],
  ['download', 'Large download', 'left'],
  ['bulk', 'Bulk create', 'right'],
  ['users', 'Users', 'right'],
  ['versions', 'Versions', 'right'],
  ['requests', 'Requests', 'right'],
] as const

/**
 * The console of `longhaul/console`, with the panels of this server. `demoTokens` are shown in the page, so they must not be
 * secret. `kinds` are the names of the tasks, to filter lists by.
 */
export function serverConsole(
  demoTokens: readonly string[], kinds: readonly string[], document: ApiDocument,
): Handler<Context> {
  const files = { script: '/console/reference.js', style: '/console/reference.css' }
  const terminal = readText('terminal.html')
  return consolePage<Context>({
    title: 'longhaul reference server', tasks: '/api/status', operators: '/admin', access: '/api/access',
    bearer: demoTokens, names: kinds, partialResults: ['tell'], retryMany: true,
    panels: [
      ...PANELS.map(([id, title, place]): ConsolePanel<Context> => ({ id, title, place, html: readText(`${id}.html`), ...files })),
      {
        id: 'terminal', title: 'From a terminal', place: 'bottom',
        html: (request) => filled(terminal, request, document, (route, what) => (
          `<tr><td><code>${escape(route)}</code></td><td>${escape(what)}</td></tr>`
        )),
      },
    ],
  })
}

/** GET /: the console for browsers, and for clients that accept text a list of the routes with commands. Public. */
export function frontPage(page: Handler<Context>, document: ApiDocument): Handler<Context> {
  const overview = readText('overview.txt')
  const asText = compose(guarded, content<Context>((request) => {
    const text = Buffer.from(filled(overview, request, document, (route, what) => `  ${route.padEnd(34)} ${what}`))
    const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`
    return { size: text.byteLength, type: 'text/plain; charset=utf-8', etag, open: (start, end) => [text.subarray(start, end)] }
  }, HOW))
  const either: Handler<Context> = (request) => {
    const type = negotiate(request.headers['accept'], OFFERS)
    if (type === undefined) throw notAcceptable(OFFERS)
    return type === 'text/plain' ? asText(request) : page(request.with({ path: '/console', mountPath: '/console' }))
  }
  return compose(told, describe(either, [fileOperation(
    'The console; for `Accept: text/plain` an overview',
    ['text/html; charset=utf-8', 'text/plain; charset=utf-8'],
  )]))
}

function readText(name: string): string {
  return readFileSync(join(CONSOLE_FOLDER, name), 'utf8')
}

/** Fills in the address of the server and its routes. */
function filled(
  text: string, { headers }: HttpRequest, document: ApiDocument, line: (route: string, what: string) => string,
): string {
  const routes = document.routes.map(([route, what]) => line(route, what)).join('\n')
  const values: Readonly<Record<string, string>> = { ORIGIN: `http://${hostOf(headers['host'])}`, ROUTES: routes }
  return text.replace(/\{\{([A-Z_]+)\}\}/g, (_, name: string) => values[name] ?? '')
}

/** Checks the Host field, which the client chooses and the page shows. */
function hostOf(field: string | string[] | undefined): string {
  return typeof field === 'string' && /^[A-Za-z0-9.:[\]-]{1,255}$/.test(field) ? field : '127.0.0.1:3000'
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
