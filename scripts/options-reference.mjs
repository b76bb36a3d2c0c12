// Writes docs/guide/options.md, the reference of all options with their defaults, from the docstrings:
// npm run options
import { writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { argv } from 'node:process'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { publicOptions } from './public-options.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const PAGE = resolve(root, 'docs/guide/options.md')

/** The page of the guide that explains the functions of an entry point. */
const GUIDE = {
  longhaul: 'tasks.md',
  'longhaul/bulk': 'bulk.md',
  'longhaul/ndjson': 'ndjson.md',
  'longhaul/export': 'result-files.md',
  'longhaul/uploads': 'uploads.md',
  'longhaul/content': 'files.md',
  'longhaul/files': 'files.md',
  'longhaul/resources': 'resources.md',
  'longhaul/policies': 'limits.md',
  'longhaul/versions': 'versions.md',
  'longhaul/openapi': 'openapi.md',
  'longhaul/callbacks': 'callbacks.md',
  'longhaul/client': 'client.md',
  'longhaul/conformance': 'writing-an-adapter.md',
  'longhaul/stores': 'writing-an-adapter.md',
  'longhaul/engine': 'writing-an-adapter.md',
  'longhaul/testing': 'testing-your-handlers.md',
  'longhaul/memory': 'getting-started.md',
  'longhaul/redis': 'redis-and-workers.md',
  'longhaul/postgres': 'postgres.md',
  'longhaul/node': 'embedding.md',
  'longhaul/fetch': 'embedding.md',
  'longhaul/fastify': 'embedding.md',
  'longhaul/koa': 'embedding.md',
  'longhaul/csv': 'csv.md',
  'longhaul/azure': 'tasks.md',
  'longhaul/stream-json': 'stream-json.md',
  'longhaul/cron': 'scheduling.md',
  'longhaul/s3': 'storage.md',
  'longhaul/partial': 'partial-results.md',
  'longhaul/operators': 'operators.md',
  'longhaul/opentelemetry': 'logging.md',
  'longhaul/nestjs': 'nestjs.md',
  'longhaul/sqlite': 'sqlite.md',
  'longhaul/bullmq': 'bullmq.md',
  'longhaul/mcp': 'mcp.md',
  'longhaul/console': 'console.md'
}

const HEAD = `# Options

All options of all functions, with their defaults, from the docstrings (\`npm run options\`). Times that end in \`Ms\` are milliseconds,
sizes that end in \`Bytes\` are bytes. A function that gets an option that it does not know throws a \`TypeError\` that lists the
options it knows. An option that several functions have is described once.
`

/** Matches "Default 10." and "Default: the id of the owner.", up to the end of the sentence. */
const DEFAULT_SENTENCE = /(?:^|(?<=[.:] ))Default:? ((?:`[^`]*`|[^.`]|\.(?! |$))+)(?:\.|$) ?/

/** Methods that the author of an adapter writes, not the application. */
const OF_ADAPTERS = /^Leased(?:Work|Run)$|^(?:Store|Blobs|TaskEngine|Places|RunSignal|(?:Memory|Redis|Folder|Postgres|Sqlite)\w+)#/

/** Returns the text of docs/guide/options.md as the sources have it now. */
export function optionsReference() {
  const { found, checker } = publicOptions()
  const entries = new Map()
  const described = new Map()
  for (const each of found) {
    if (!OF_ADAPTERS.test(each.name)) entries.set(each.entry, [...entries.get(each.entry) ?? [], each])
  }
  return HEAD + [...entries].map(([entry, functions]) => entrySection(entry, functions, checker, described)).join('')
}

/**
 * Functions with the same options share a table. A row that an earlier table has is not repeated: the functions of that
 * table are named.
 *
 * @param described - the functions that have a row, by the row
 */
function entrySection(entry, functions, checker, described) {
  const tables = new Map()
  for (const { name, type } of functions.flatMap((each) => [each, ...nestedOf(each, checker)])) {
    const rows = rowsOf(type, checker).join('')
    if (rows !== '') tables.set(rows, [...tables.get(rows) ?? [], name])
  }
  const sections = [...tables].map(([rows, names]) => {
    const heading = names.map((name) => `\`${shown(name)}\``).join(', ')
    return `\n### ${heading}\n\n${tableOf(rows.match(/.+\n/g), heading, described)}`
  })
  const guide = GUIDE[entry]
  const head = `\n## \`${entry}\`\n${guide === undefined ? '' : `\n[Guide](${guide})\n`}`
  return head + sections.join('')
}

/** Returns the options inside options: those whose type is an interface of the name `…Options`. */
function nestedOf({ name, type }, checker) {
  return checker.getPropertiesOfType(type).flatMap((option) => {
    const declared = option.declarations?.[0]?.type
    if (!/^(?:Omit<)?\w+Options\b/.test(declared?.getText() ?? '')) return []
    return [{ name: `${name}: ${option.name}`, type: checker.getTypeFromTypeNode(declared) }]
  })
}

/** `Tasks#close` is a method, written `tasks.close`. */
function shown(name) {
  const [owner = '', method] = name.replace(/^what (\w+) is$/, '$1').split('#')
  return method === undefined ? owner : `${owner[0].toLowerCase()}${owner.slice(1)}.${method}`
}

function rowsOf(type, checker) {
  return checker.getPropertiesOfType(type).map((option) => row(option, checker)).filter((each) => each !== undefined)
}

function tableOf(rows, heading, described) {
  const own = rows.filter((each) => !described.has(each))
  const shared = new Map()
  for (const each of rows) {
    const functions = described.get(each)
    if (functions !== undefined) shared.set(functions, [...shared.get(functions) ?? [], each])
  }
  for (const each of own) described.set(each, heading)
  const notes = [...shared].map(([functions, repeated]) => (
    `As for ${functions}: ${repeated.map((each) => each.split(' | ')[0].slice(2)).join(', ')}.\n`
  ))
  const table = own.length === 0 ? [] : [`| Option | Type | Default | Meaning |\n|---|---|---|---|\n${own.join('')}`]
  return [...table, ...notes].join('\n')
}

function row(option, checker) {
  const [declaration] = option.declarations ?? []
  if (!declaration || !/\/(src|adapters|conformance)\//.test(declaration.getSourceFile().fileName)) return undefined
  const { meaning, byDefault } = docsOf(option, checker)
  const optional = (option.flags & ts.SymbolFlags.Optional) !== 0
  // The head of the page says the units of these names, and a column says the default.
  const plain = meaning.replaceAll(' (default)', '')
  const text = /(?:Ms|Bytes)$/.test(option.name) ? plain.replaceAll(/,? in (?:milliseconds|bytes)(?=[,.:;])/g, '') : plain
  const cells = [`\`${option.name}\``, `\`${typeText(option, declaration, checker)}\``, optional ? byDefault || '–' : 'required', text]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`
}

function typeText(option, declaration, checker) {
  const written = declaration.type?.getText()
  const text = written ?? checker.typeToString(checker.getTypeOfSymbol(option), undefined, ts.TypeFormatFlags.NoTruncation)
  const plain = text.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/\s+/g, ' ').replace(/^\| /, '').replaceAll('readonly ', '')
  // An optional property may be `undefined` in any case.
  return plain.replace(/ \| undefined$/, '')
}

/** Returns the first paragraph of a docstring, with its list if it ends in a colon, and the default. */
function docsOf(option, checker) {
  const paragraphs = ts.displayPartsToString(option.getDocumentationComment(checker)).split(/\n\s*\n|\n(?=- )/)
    .map((each) => each.replaceAll(/\s+/g, ' ').trim())
  const tag = option.getJsDocTags(checker).find(({ name }) => name === 'default')
  const tagged = ts.displayPartsToString(tag?.text).replaceAll(/\s+/g, ' ').trim()
  let sentence = ''
  const [first = '', ...rest] = paragraphs.map((each) => each.replace(DEFAULT_SENTENCE, (_whole, found) => {
    sentence = found
    return ''
  }).trim())
  const list = first.endsWith(':') ? rest.filter((each) => each.startsWith('- ')).map((each) => each.slice(2)) : []
  const [, value = '', comment = ''] = /^((?:`[^`]*`|[^;`])*)(?:; (.*))?$/.exec(sentence) ?? []
  const more = comment === '' ? '' : `${comment[0].toUpperCase()}${comment.slice(1)}.`
  const [, marked = ''] = /(`[^`]+`) \(default\b/.exec(paragraphs.join(' ')) ?? []
  return { meaning: [first, ...list, more].filter((each) => each).join(' '), byDefault: tagged || value.trim() || marked }
}

/** Returns what the docstring of an option says about its default; `''` if it says nothing. */
export function defaultOf(option, checker) {
  return docsOf(option, checker).byDefault
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const text = optionsReference()
  writeFileSync(PAGE, text)
  console.log(`docs/guide/options.md: ${text.match(/^### /gm)?.length ?? 0} functions, ${text.match(/^\| `/gm)?.length ?? 0} options`)
}
