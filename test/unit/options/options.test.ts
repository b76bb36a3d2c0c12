import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { publicOptions } from '../../../scripts/public-options.mjs'
import { close, EXEMPT, NESTED, TABLE } from './table.js'

const NONSENSE = 'flibbertigibbet'

describe('every function with options rejects an unknown name, and says which names exist', () => {
  after(close)

  for (const [name, call] of Object.entries({ ...TABLE, ...NESTED })) {
    test(name, async () => {
      const options = { [NONSENSE]: 1 } as never
      await assert.rejects(async () => call(options), (error: Error) => {
        assert.equal(error.name, 'TypeError', error.stack)
        assert.match(
          error.message,
          new RegExp(
            `there is no option "${NONSENSE}"\\. (The options are \\w+((, | and )\\w+)*|The only option is \\w+|There are no options here)\\.$`,
          ),
        )
        return true
      })
    })
  }

  test('the table has every public function with options', () => {
    const known = new Set([...Object.keys(TABLE), ...Object.keys(EXEMPT)])
    const found = publicOptions().found.map(({ entry, name }) => `${entry}: ${name}`)
    assert.deepEqual(
      found.filter((name) => !known.has(name)),
      [],
      'add these to test/unit/options/table.ts, and check their names with checkNames',
    )
    assert.deepEqual([...known].filter((name) => !found.includes(name)), [], 'these are no longer there')
  })
})
