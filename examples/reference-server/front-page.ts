import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { addResponseHeaders, describe, header } from 'longhaul/openapi'
import { compose, type Handler, type Policy } from 'longhaul'
import { content } from 'longhaul/content'
import { negotiate, notAcceptable } from 'longhaul/http'
import type { Context } from './auth.js'
import { CONSOLE_FOLDER, fileOperation, guarded, HOW, textSource } from './console-files.js'
import type { ApiDocument } from './openapi.js'

const OFFERS = ['text/html', 'text/plain']
const FILES = { 'text/html': 'index.html', 'text/plain': 'overview.txt' } as const

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

/**
 * GET /: the console for browsers, and for clients that accept text a list of the routes with commands. Public. `demoTokens` are
 * shown in the page, so they must not be secret. `kinds` are the names of the tasks, to filter lists by.
 */
export function frontPage(
  demoTokens: readonly string[], kinds: readonly string[], document: ApiDocument,
): Handler<Context> {
  const texts = new Map(OFFERS.map((type) => [type, readFileSync(join(CONSOLE_FOLDER, FILES[type as keyof typeof FILES]), 'utf8')]))
  const page = content<Context>(({ headers }) => {
    const type = negotiate(headers['accept'], OFFERS)
    if (type === undefined) throw notAcceptable(OFFERS)
    const routes = document.routes.map(([route, what]) => (type === 'text/html'
      ? `<tr><td><code>${escape(route)}</code></td><td>${escape(what)}</td></tr>`
      : `  ${route.padEnd(34)} ${what}`))
    const values: Readonly<Record<string, string>> = {
      KINDS: kinds.map((kind) => `<option>${escape(kind)}</option>`).join('\n'),
      ORIGIN: `http://${hostOf(headers['host'])}`, DEMO_TOKENS: escape(demoTokens.join(' ')), ROUTES: routes.join('\n'),
    }
    const text = (texts.get(type) ?? '').replace(/\{\{([A-Z_]+)\}\}/g, (_, name: string) => values[name] ?? '')
    return textSource(text, `${type}; charset=utf-8`)
  }, HOW)
  return compose(guarded, told, describe(page, [fileOperation(
    'The console; for `Accept: text/plain` an overview',
    ['text/html; charset=utf-8', 'text/plain; charset=utf-8'],
  )]))
}

/** Checks the Host field, which the client chooses and the page shows. */
function hostOf(field: string | string[] | undefined): string {
  return typeof field === 'string' && /^[A-Za-z0-9.:[\]-]{1,255}$/.test(field) ? field : '127.0.0.1:3000'
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
