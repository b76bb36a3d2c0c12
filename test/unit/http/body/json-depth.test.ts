import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isTooDeep, MAX_JSON_DEPTH, SHALLOW_UNITS, shallowUnits } from '../../../../src/http/body/json.js'

describe('shallowUnits', () => {
  test('is slightly below the shortest too deeply nested text of each kind', () => {
    const levels = MAX_JSON_DEPTH + 1
    for (let lists = 0; lists <= levels; lists++) {
      // The innermost one is an object, which is the shortest that it can be.
      const objects = Math.max(0, levels - lists - 1)
      const inner = lists === levels ? '' : '{}'
      const text = '{"":'.repeat(objects) + '['.repeat(lists) + inner + ']'.repeat(lists) + '}'.repeat(objects)
      assert.ok(isTooDeep(JSON.parse(text)))
      assert.ok(text.length > shallowUnits(text), `${lists} lists`)
      if (lists < 256) assert.equal(text.length, shallowUnits(text) + 1, `${lists} lists`)
      assert.ok(shallowUnits(text) >= SHALLOW_UNITS)
    }
  })

  test('never reports a text that is nested too deeply as shallow (property)', () => {
    const level = fc.constantFrom(
      ['[', ']'],
      ['{"":', '}'],
      ['[0,', ']'],
      ['{"a":[],"":', '}'],
      ['[ ', ',{}]'],
      ['{"[":', ',"b":"]"}'],
    )
    fc.assert(
      fc.property(
        fc.array(level, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 505, max: 520 }),
        fc.constantFrom('', '[[[', '\n{"a":1}\n'),
        (kinds, levels, beside) => {
          const chosen = Array.from({ length: levels }, (_, at) => kinds[at % kinds.length] as [string, string])
          const line = `${chosen.map(([open]) => open).join('')}{}${chosen
            .map(([, close]) => close)
            .reverse()
            .join('')}`
          assert.equal(isTooDeep(JSON.parse(line)), levels + 1 > MAX_JSON_DEPTH)
          if (levels + 1 > MAX_JSON_DEPTH) assert.ok(line.length > shallowUnits(line + beside))
        },
      ),
      { numRuns: 300 },
    )
  })
})
