import { createHash } from 'node:crypto'
import { content, type ContentSource } from '../../src/content/index.js'
import type { Handler, HttpRequest } from '../../src/http/exchange.js'
import { router } from '../../src/index.js'
import { flag, readOptions, text, value, type OptionTable } from '../../src/runtime/options.js'
import { assetNames, readAsset } from './assets.js'

/** A panel of your own in the page of `consolePage`. */
export interface ConsolePanel<C = unknown> {
  /** Id of its element, and the fragment of its link: `users`. */
  readonly id: string
  readonly title: string
  /** Its content as HTML, which is sent as it is. So it must not contain text of users. A function returns it for a request. */
  readonly html: string | ((request: HttpRequest<C>) => string)
  /** Path of its script, a module, as the browser requests it. Default: none. */
  readonly script?: string
  /** Path of its style sheet, as the browser requests it. Default: none. */
  readonly style?: string
  /**
   * Its place: above or below the user's own tasks, above the tasks of all owners, or at the end.
   * Default `left`.
   */
  readonly place?: 'first' | 'left' | 'right' | 'bottom'
}

/** Options of `consolePage`. All paths are as the browser requests them. */
export interface ConsolePageOptions<C = unknown> {
  /** Title and heading of the page. Default `Tasks`. */
  readonly title?: string
  /**
   * Path of the list of the user's own tasks: `/api/tasks`. The handlers of `taskEndpoints` are below it:
   * `/api/tasks/{id}`, with `/retry`, `/input`, `/callback` and `/files/{name}`. Default: no such panel.
   */
  readonly tasks?: string
  /**
   * Path above the handlers of `operatorEndpoints`: with `/admin`, these are `/admin/overview`, `/admin/pools`,
   * `/admin/pause`, `/admin/tasks`, `/admin/tasks/{id}` and those below it. Default: no such panel.
   */
  readonly operators?: string
  /** True if `{operators}/tasks/retry` is `retryMany`, for a button that retries many tasks. Default: false. */
  readonly retryMany?: boolean
  /**
   * Path of a GET that responds with `{ "operator": true }` to operators, with false and a
   * `message` to other users, and with 401 to unknown ones. Default: every user is an operator.
   *
   * The page asks it before it requests what only operators may see.
   */
  readonly access?: string
  /** Names of the definitions, to filter the list by. Default: none. */
  readonly names?: readonly string[]
  /** Names of the definitions whose partial results, which are text, are at `{status}/partial-results`. Default: none. */
  readonly partialResults?: readonly string[]
  /**
   * Shows a field for a bearer token, which the page sends with each request and keeps for the tab. An array has tokens to
   * choose, which are public. Default: false, and the browser sends its cookies.
   */
  readonly bearer?: boolean | readonly string[]
  /** Panels of your own. Default: none. */
  readonly panels?: readonly ConsolePanel<C>[]
}

const path = () => value('a path that begins with a slash', (given) => typeof given === 'string' && given.startsWith('/'))
const list = (what: string) => value(`an array of ${what}`, Array.isArray)

const OPTIONS = {
  title: text({ default: 'Tasks' }), tasks: path(), operators: path(), retryMany: flag({ default: false }), access: path(),
  names: list('names'), partialResults: list('names'), panels: list('panels'),
  bearer: value('a boolean, or an array of tokens', (given) => typeof given === 'boolean' || Array.isArray(given)),
} satisfies OptionTable<ConsolePageOptions>

type Page<C> = Omit<ConsolePageOptions<C>, 'title'> & { readonly title: string }

/**
 * Serves the console as a page for an API that you have mounted: the tasks of the user, those of all owners, or both.
 * `taskConsole` mounts the API, too. The page contains no data, so it may be public. The page is at the mount
 * path, and its files are below. Its Content-Security-Policy allows only its own files and requests to its own server.
 *
 * @example
 * import { consolePage } from 'longhaul/console'
 *
 * app.use('/console', toNode(consolePage({ tasks: '/api/tasks', operators: '/admin' })))
 *
 * @throws {TypeError} An option is unknown or not valid, or the page would have no panel.
 */
export function consolePage<C = unknown>(options: ConsolePageOptions<C>): Handler<C> {
  const page = readOptions('consolePage', options as ConsolePageOptions, OPTIONS) as Page<C>
  if (page.tasks === undefined && page.operators === undefined && !page.panels?.length) {
    throw new TypeError('consolePage: name the path of tasks, of operators, or of both')
  }
  return router<C>(pageRoutes(() => page))
}

/** Returns the routes of the page and its files. `describe` returns the page for a request. */
export function pageRoutes<C>(describe: (request: HttpRequest<C>) => Page<C>): Record<string, Handler<C>> {
  const how = { codings: ['br', 'gzip'], cacheControl: 'no-cache' } as const
  const served = new Set(assetNames.filter((name) => !name.endsWith('.html')))
  const file = async ({ params: { file: name = '' } }: HttpRequest<C>): Promise<ContentSource | undefined> => (
    served.has(name) ? assetSource(name) : undefined
  )
  const page = async (request: HttpRequest<C>): Promise<ContentSource> => (
    textSource(await htmlOf(describe(request), request), 'text/html; charset=utf-8')
  )
  return { 'GET /': guarded(content<C>(page, how)), 'GET /{file}': guarded(content<C>(file, how)) }
}

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
  "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
  "require-trusted-types-for 'script'", "trusted-types 'none'",
].join('; ')

/** Adds the headers for pages and scripts. The handler has no description, because it is not for API clients. */
function guarded<C>(handler: Handler<C>): Handler<C> {
  return async (request) => {
    const response = await handler(request)
    if (response === undefined) return undefined
    const { headers } = response
    headers['content-security-policy'] = CONTENT_SECURITY_POLICY
    headers['x-content-type-options'] = 'nosniff'
    headers['referrer-policy'] = 'no-referrer'
    headers['cross-origin-opener-policy'] = 'same-origin'
    return response
  }
}

const assets = new Map<string, { readonly text: string, readonly source: ContentSource }>()

/** Returns a file of the page. Its digest is made once, for all requests. */
async function assetSource(name: string): Promise<ContentSource> {
  const text = await readAsset(name)
  // In a clone of the repository, files change.
  let asset = assets.get(name)
  if (asset?.text !== text) asset = { text, source: textSource(text, typeOf(name)) }
  assets.set(name, asset)
  return asset.source
}

function textSource(source: string, type: string): ContentSource {
  const bytes = Buffer.from(source)
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  return { size: bytes.byteLength, type, etag: `"${digest}"`, open: (start, end) => [bytes.subarray(start, end)] }
}

function typeOf(name: string): string {
  if (name.endsWith('.svg')) return 'image/svg+xml'
  return name.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8'
}

async function htmlOf<C>(page: Page<C>, request: HttpRequest<C>): Promise<string> {
  const { title, tasks, operators, retryMany, access, bearer = false, partialResults = [] } = page
  const panels = await panelsOf(page)
  const at = (...places: (string | undefined)[]): string => (
    panels.filter(({ place }) => places.includes(place)).map((panel) => sectionOf(panel, request)).join('\n')
  )
  const isBearer = bearer !== false
  const config = { tasks, operators, retryMany, access, bearer: isBearer, partialResults }
  const base = escape(request.mountPath)
  const ownScripts = [
    'main.js', ...isBearer ? ['token-form.js'] : [], ...tasks === undefined ? [] : ['task-list.js'],
    ...operators === undefined ? [] : ['operator.js'],
  ]
  const session = isBearer ? await readAsset('session.html') : ''
  const demoTokens = Array.isArray(bearer) ? bearer.join(' ') : ''
  return filled(await readAsset('page.html'), {
    TITLE: escape(title), BASE: base, CONFIG: escape(JSON.stringify(config)),
    SESSION: filled(session, { DEMO_TOKENS: escape(demoTokens) }),
    STYLES: tagsOf(panels, ({ style }) => style, (href) => `<link rel="stylesheet" href="${href}">`),
    SCRIPTS: tagsOf(panels, ({ script }) => script, scriptTag) + ownScripts.map((name) => scriptTag(`${base}/${name}`)).join('\n'),
    LINKS: panels.map(({ id, title }) => `    <li><a href="#${escape(id)}">${escape(title)}</a></li>`).join('\n'),
    LEFT: at('first', 'left', undefined), RIGHT: at('right'), BOTTOM: at('bottom'),
  })
}

/** Returns the panels in the order of the page. */
async function panelsOf<C>({ tasks, operators, names = [], panels = [] }: Page<C>): Promise<ConsolePanel<C>[]> {
  const options = names.map((name) => `<option>${escape(name)}</option>`).join('\n')
  const own = tasks === undefined ? [] : [{ id: 'tasks', title: 'Your tasks', html: filled(await readAsset('tasks.html'), { NAMES: options }) }]
  const all = operators === undefined
    ? [] : [{ id: 'operator', title: 'All tasks', html: await readAsset('operator.html'), place: 'right' as const }]
  const placed = (place: ConsolePanel<C>['place']) => panels.filter((panel) => (panel.place ?? 'left') === place)
  return [...placed('first'), ...own, ...placed('left'), ...placed('right'), ...all, ...placed('bottom')]
}

function sectionOf<C>({ id, title, html }: ConsolePanel<C>, request: HttpRequest<C>): string {
  const name = escape(id)
  return `    <section id="${name}" class="panel" aria-labelledby="${name}-title">
      <h2 id="${name}-title" tabindex="-1">${escape(title)}</h2>
${typeof html === 'string' ? html : html(request)}
    </section>`
}

function scriptTag(src: string): string {
  return `<script type="module" src="${src}"></script>`
}

function tagsOf<C>(
  panels: readonly ConsolePanel<C>[], pathOf: (panel: ConsolePanel<C>) => string | undefined,
  tag: (path: string) => string,
): string {
  return [...new Set(panels.flatMap((panel) => pathOf(panel) ?? []))].map((each) => tag(escape(each))).join('\n')
}

/** Replaces `{{NAME}}`. Names without a value stay. */
function filled(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(/\{\{([A-Z_]+)\}\}/g, (whole, name: string) => values[name] ?? whole)
}

function escape(raw: string): string {
  return raw.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
