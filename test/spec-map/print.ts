// Writes docs/spec-map.md: npm run spec-map
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLAUSES } from './clauses.js'
import { readTests } from './read-tests.js'

const root = join(import.meta.dirname, '..', '..')
const tests = readTests(root)

const rows = CLAUSES.map((clause) => {
  const proofs = tests
    .filter((test) => test.clauses.includes(clause.id))
    .map((test) => `${test.title.replaceAll('|', '\\|')} ([${test.file}](../${test.file}))`)
  return `| ${clause.id} | ${clause.about} | ${proofs.length === 0 ? `planned: ${clause.planned ?? 'nothing'}` : proofs.join('<br>')} |`
})

const covered = CLAUSES.filter((clause) => clause.planned === undefined).length
const text = [
  '# Which test proves which clause',
  '',
  `Made by \`npm run spec-map\` from the titles of the tests. ${covered} of ${CLAUSES.length} clauses of [SPEC.md](SPEC.md) are covered.`,
  '',
  '| Clause | What it says | Tests |',
  '|---|---|---|',
  ...rows,
  ''
].join('\n')

writeFileSync(join(root, 'docs', 'spec-map.md'), text)
process.stdout.write(text)
