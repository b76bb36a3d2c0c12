import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  duration, flag, func, oneOf, readOptions, text, value, whole, type OptionTable,
} from '../../../src/runtime/options.js'

interface Settings {
  readonly retentionMs?: number
  readonly remove?: 'cancel' | 'forget'
  readonly places?: number
  readonly onError?: (error: unknown) => void
  readonly prefix: string
  readonly isOn?: boolean
  readonly store?: object
}

const TABLE = {
  retentionMs: duration({ min: 1000, default: 5000 }),
  remove: oneOf(['cancel', 'forget'], { default: 'cancel' }),
  places: whole({ min: 1, infinity: true }),
  onError: func(),
  prefix: text({ required: true }),
  isOn: flag(),
  store: value(),
} satisfies OptionTable<Settings>

const read = (options: object) => readOptions('make', options as Settings, TABLE)

test('parsed options have their defaults, and their type includes the defaults', () => {
  const { retentionMs, remove, places } = read({ prefix: 'a', places: Infinity })
  const sum: number = retentionMs + 1
  const choice: 'cancel' | 'forget' = remove
  assert.deepEqual([sum, choice, places], [5001, 'cancel', Infinity])
})

test('an option with an unexpected value throws a TypeError that says what it must be', () => {
  const cases: [object, RegExp][] = [
    [{}, /^TypeError: make: the option prefix is missing; it must be a string that is not empty$/],
    [{ prefix: '' }, /prefix must be a string that is not empty, not ""$/],
    [
      { prefix: 'a', retentionMs: 1 },
      /retentionMs must be a number of milliseconds from 1000 to 3155760000000, not 1$/,
    ],
    [{ prefix: 'a', retentionMs: NaN }, /retentionMs must be .* not NaN$/],
    [{ prefix: 'a', retentionMs: Infinity }, /retentionMs must be .* not Infinity$/],
    [{ prefix: 'a', places: 1.5 }, /places must be a whole number from 1, or Infinity, not 1.5$/],
    [{ prefix: 'a', remove: 'drop' }, /remove must be 'cancel' or 'forget', not "drop"$/],
    [{ prefix: 'a', onError: [] }, /onError must be a function, not \[\]$/],
    [{ prefix: 'a', isOn: {} }, /isOn must be true or false, not an object$/],
    [{ prefix: 'a', retention: 1 }, /there is no option "retention"; did you mean "retentionMs"\?/],
  ]
  for (const [options, message] of cases) assert.throws(() => read(options), message)
})
