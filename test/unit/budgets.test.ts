// Weight grows unnoticed, so it has budgets. A commit that raises one says why; one that saves more than 2 % lowers it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, test } from 'node:test'
import { countNames } from '../../scripts/public-options.mjs'

const root = resolve(import.meta.dirname, '../..')

const BUDGETS = {
  'lines of code in src': 28_850,
  'lines of code in adapters': 13_620,
  'lines of code in conformance': 4_950,
  'public names': 429,
  'rows of options': 512,
  'files of an accept': 46,
  'functions of an accept': 137,
}

type Budget = keyof typeof BUDGETS

const within = (budget: Budget, now: number): void => {
  assert.ok(now <= BUDGETS[budget], `${budget}: ${now}, and the budget is ${BUDGETS[budget]}`)
  const least = Math.floor(BUDGETS[budget] * 0.98) - 1
  assert.ok(now >= least, `${budget}: ${now}. Lower the budget of ${BUDGETS[budget]}, so that it stays so`)
}

/** Counts the lines that are neither blank nor a comment. */
function linesOfCode(folder: string): number {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  return files.flatMap((file) => readFileSync(join(root, folder, file), 'utf8').split('\n'))
    .filter((line) => !/^\s*(?:$|\/\/|\/\*|\*)/.test(line)).length
}

describe('the weight of the package', () => {
  for (const folder of ['src', 'adapters', 'conformance'] as const) {
    test(`the lines of ${folder} stay within their budget`, () => {
      within(`lines of code in ${folder}`, linesOfCode(folder))
    })
  }

  test('the public names stay within their budget', () => {
    within('public names', countNames().different)
  })

  test('the options stay within their budget', () => {
    const page = readFileSync(join(root, 'docs/guide/options.md'), 'utf8')
    within('rows of options', page.split('\n').filter((line) => line.startsWith('| `')).length)
  })

  test('the path of an accept stays within its budget', () => {
    const script = join(root, 'scripts/accept-path.mjs')
    const text = execFileSync(process.execPath, ['--import', 'tsx', script], { cwd: root, encoding: 'utf8' })
    const [, files, functions] = /accept: (\d+) files, (\d+) functions/.exec(text) ?? []
    within('files of an accept', Number(files))
    within('functions of an accept', Number(functions))
  })
})
