/** A parsed key of `router()`. */
export interface Route {
  /** The key as written, for messages. */
  readonly key: string
  /** Upper-case methods; none means any. */
  readonly methods: readonly string[]
  /** `/job-status/{id}` */
  readonly template: string
  /** The names of the parameters, from left to right. */
  readonly names: readonly string[]
  /** The template with its parameters numbered: two routes of one shape match the same paths. */
  readonly shape: string
}

const ROUTE = /^(?:(\S+) +)?(\/.*)$/s
const METHOD = /^[A-Z][A-Z0-9!#$%&'*+.^_`~-]*$/
const PARAMETER = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/
/** The characters of a segment (RFC 3986 section 3.3). */
const LITERAL = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+$/

/**
 * Parses a route: `'POST /start-job'`, `'GET|HEAD|DELETE /job-status/{id}'`. `'/any/{id}'` and
 * `'* /any/{id}'` accept any method.
 *
 * @throws {TypeError} The key is not a route. The message says what to write instead.
 */
export function parseRoute(key: string): Route {
  const fail = (advice: string): never => {
    throw new TypeError(`router: the route ${JSON.stringify(key)}: ${advice}`)
  }
  const [, before = '', template = ''] = ROUTE.exec(key)
    ?? fail("write a method and a path, such as 'GET /jobs/{id}'")
  const methods = before === '' || before === '*' ? [] : before.split('|')
  for (const method of methods) {
    if (METHOD.test(method)) continue
    const advice = "write them in upper case, as in 'GET|DELETE /jobs/{id}'"
    fail(`${JSON.stringify(method)} is no method; ${advice}`)
  }
  const names: string[] = []
  const parts = template === '/' ? [] : template.slice(1).split('/')
  for (const part of parts) {
    const name = PARAMETER.exec(part)?.[1]
    if (name !== undefined) {
      if (names.includes(name)) {
        fail(`the parameter {${name}} is there twice; give each a name of its own`)
      }
      names.push(name)
    } else checkLiteral(part, fail)
  }
  return { key, methods, template, names, shape: shapeOf(template) }
}

/** Returns a template without the names of its parameters. */
export function shapeOf(template: string): string {
  return template.replaceAll(/\{[^}]*\}/g, '{}')
}

function checkLiteral(part: string, fail: (advice: string) => never): void {
  if (part === '') {
    fail('leave out empty segments and the slash at the end: '
      + 'a request with one more slash at its end matches too')
  }
  if (part === '.' || part === '..') {
    fail("'.' and '..' cannot be segments, clients take them out before they send a path")
  }
  if (part.includes('{') || part.includes('}')) {
    fail('a parameter fills a whole segment and is named like a variable, as in /jobs/{id}')
  }
  if (part.startsWith(':')) fail(`write {${part.slice(1)}} instead of ${part}`)
  if (part.includes('*')) {
    fail('there are no wildcards; mount a handler of its own for a whole subtree')
  }
  if (!LITERAL.test(part)) {
    fail(`${JSON.stringify(part)} cannot be part of a path as clients send it; `
      + 'percent-encode it (encodeURIComponent)')
  }
}
