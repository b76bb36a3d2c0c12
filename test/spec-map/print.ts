// Writes docs/spec-map.md: npm run spec-map
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLAUSES } from './clauses.js'
import { codeOf } from './code.js'
import { readRules, testsOf } from './read-rules.js'
import { readTests } from './read-tests.js'
import { RULES } from './rules.js'

const root = join(import.meta.dirname, '..', '..')
const tests = readTests(root)
const link = (file: string): string => `[${file.split('/').slice(-2).join('/')}](../${file})`
const row = (...cells: readonly string[]): string => `| ${cells.join(' | ')} |`

const clauses = CLAUSES.map(({ id, about, planned }) => {
  const proofs = tests
    .filter((test) => test.clauses.includes(id))
    .map((test) => `${test.title.replaceAll('|', '\\|')} (${link(test.file)})`)
  return row(
    id,
    about,
    codeOf(id).map(link).join('<br>'),
    proofs.length === 0 ? `planned: ${planned ?? 'nothing'}` : proofs.join('<br>'),
  )
})

const numbers = (id: string): number[] => [...id.matchAll(/\d+/g)].map(Number)
const inOrder = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => {
  const [one, other] = [numbers(a), numbers(b)]
  for (const [at, each] of one.entries()) if (each !== (other[at] ?? -1)) return each - (other[at] ?? -1)
  return one.length - other.length
}
const address = (id: string): string => {
  const [, rfc, section] = /^RFC (\d+)(?: section (\S+))?$/.exec(id) ?? []
  return `[${id}](https://www.rfc-editor.org/rfc/rfc${rfc ?? ''}.html${section === undefined ? '' : `#section-${section}`})`
}
const testsFor = testsOf(root)
const rules = [...readRules(root)].sort(inOrder).map(([id, files]) => {
  const proofs = [...new Set(files.flatMap(testsFor))]
  return row(address(id), RULES[id] ?? '', files.map(link).join('<br>'), proofs.slice(0, 8).map(link).join('<br>'))
})

const covered = CLAUSES.filter((clause) => clause.planned === undefined).length
const text = [
  '# Rules, code and tests',
  '',
  'Made by `npm run spec-map` from the titles of the tests, from what the code cites and from who imports it, and kept true by `test/spec-map/spec-map.test.ts`.',
  '',
  '## Which test proves which clause of the specification',
  '',
  `${covered} of ${CLAUSES.length} clauses of [SPEC.md](SPEC.md) are covered.`,
  '',
  row('Clause', 'What it says', 'Code', 'Tests'),
  '|---|---|---|---|',
  ...clauses,
  '',
  '## Which code keeps which rule of an RFC',
  '',
  'The tests are those nearest to the code, by import.',
  '',
  row('Rule', 'About', 'Code', 'Tests'),
  '|---|---|---|---|',
  ...rules,
  '',
].join('\n')

writeFileSync(join(root, 'docs', 'spec-map.md'), text)
process.stdout.write(`docs/spec-map.md: ${String(clauses.length)} clauses, ${String(rules.length)} rules\n`)
