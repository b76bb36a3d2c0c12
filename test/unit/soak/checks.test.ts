import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkBegins, checkFences } from '../../soak/check-fences.js'
import { checkInputs, checkKeys } from '../../soak/check-keys.js'
import { checkLimits, checkPauses, peaksOf, type PoolLimits } from '../../soak/check-limits.js'
import { checkTurns } from '../../soak/check-turns.js'
import type { Begin, HistoryEvent, Submission, Violation, Write } from '../../soak/history.js'

/** A begin of task `t` at 10, by its first worker. */
function begin(given: Partial<Begin> = {}): Begin {
  const { at = 10 } = given
  return {
    kind: 'begin', at, pid: 1, task: 't', lease: 'a', run: 1, version: 2, name: 'limited', pool: 'limited',
    owner: 'ann', n: 1, createdMs: 0, firstMs: at, startedMs: at, ...given,
  }
}

function write(given: Partial<Write> = {}): Write {
  return { kind: 'write', at: 20, task: 't', lease: 'a', outcome: 'changed', ...given }
}

function submission(given: Partial<Submission> = {}): Submission {
  return { kind: 'submission', at: 0, key: 'k', n: 1, outcome: 'created', task: 't', version: 1, ...given }
}

/** A run of another task, from `at` to `until`. */
function run(task: string, [at, until]: readonly [number, number], given: Partial<Begin> = {}): HistoryEvent[] {
  return [begin({ task, at, ...given }), write({ task, at: until })]
}

function found(violations: readonly Violation[]): string[] {
  return violations.map(({ what }) => what)
}

describe('the check of fences', () => {
  const WRONG = 'a run wrote after a later one had begun'

  test('accepts a run that writes until the next run begins', () => {
    const next = [begin({ lease: 'b', run: 2, at: 30 }), write({ lease: 'b', at: 40 })]
    assert.deepEqual(checkFences([begin(), write(), ...next]), [])
  })

  test('finds a write of a run whose successor has begun', () => {
    const late = write({ at: 35 })
    assert.deepEqual(found(checkFences([begin(), begin({ lease: 'b', run: 2, at: 30 }), late])), [WRONG])
  })

  test('finds a late write of a run whose number has been used again', () => {
    const other = [begin({ lease: 'b', at: 30 }), write({ lease: 'b', at: 31 })]
    assert.deepEqual(found(checkFences([begin(), ...other, write({ at: 35 })])), [WRONG])
  })

  test('accepts a rejected late write', () => {
    const late = write({ at: 35, outcome: 'refused' })
    assert.deepEqual(checkFences([begin(), begin({ lease: 'b', run: 2, at: 30 }), late]), [])
  })

  test('does not report the next run if a worker hears late of its own run', () => {
    const next = [begin({ lease: 'b', run: 2, at: 30 }), write({ lease: 'b', at: 50 })]
    assert.deepEqual(checkFences([...next, begin({ at: 40 })]), [])
  })
})

describe('the check of begins', () => {
  const WRONG = 'a run did not start from the last checkpoint'
  const saved = [begin(), write({ checkpoint: 'one' }), write({ at: 21, checkpoint: 'two' })]
  const next = (checkpoint?: string): Begin => begin({ lease: 'b', run: 2, at: 30, checkpoint })

  test('accepts a run that starts from the last checkpoint', () => {
    assert.deepEqual(checkBegins([...saved, next('two')]), [])
  })

  test('finds a run that starts from an earlier checkpoint, or from none', () => {
    assert.deepEqual(found(checkBegins([...saved, next('one')])), [WRONG])
    assert.deepEqual(found(checkBegins([...saved, next()])), [WRONG])
  })

  test('accepts a run that starts from a checkpoint whose response was lost', () => {
    const lost = write({ at: 22, checkpoint: 'three', outcome: 'unknown' })
    assert.deepEqual(checkBegins([...saved, lost, next('three')]), [])
    assert.deepEqual(checkBegins([...saved, lost, next('two')]), [])
  })

  test('accepts a run that starts from a checkpoint whose process died during the save', () => {
    assert.deepEqual(checkBegins([...saved, next('untold')]), [])
  })

  test('finds a run that starts from a rejected checkpoint', () => {
    const refused = write({ at: 22, checkpoint: 'three', outcome: 'refused' })
    assert.deepEqual(found(checkBegins([...saved, refused, next('three')])), [WRONG])
  })

  test('finds two runs with one number, and two with one token', () => {
    const twins = 'two runs have one number or token'
    assert.deepEqual(found(checkBegins([begin(), begin({ lease: 'b', at: 30 })])), [twins])
    assert.deepEqual(found(checkBegins([begin(), begin({ run: 2, at: 30 })])), [twins])
  })
})

describe('the check of limits of running work', () => {
  const check = (events: readonly HistoryEvent[], given: Partial<PoolLimits>): string[] => {
    const none = { maxRunning: 99, maxRunningPerOwner: 99, perOwnerOf: {}, startsPer: { count: 99, ms: 100 } }
    return found(checkLimits(peaksOf(events, 'limited', { startsMs: 100, leaseMs: 1000 }), { ...none, ...given }))
  }
  const four = [10, 20, 30, 40].flatMap((at) => run(`t${String(at)}`, [at, 45], { owner: `o${String(at)}` }))

  test('finds more concurrent runs than maxRunning', () => {
    assert.deepEqual(check(four, { maxRunning: 4 }), [])
    assert.deepEqual(check(four, { maxRunning: 3 }), ['more than maxRunning run'])
  })

  test('does not count runs of other pools', () => {
    assert.deepEqual(check([...four, ...run('other', [25, 50], { pool: 'fair' })], { maxRunning: 4 }), [])
  })

  test('accepts a run that begins when another run has ended', () => {
    assert.deepEqual(check([...run('one', [10, 20]), ...run('two', [20, 30])], { maxRunning: 1 }), [])
  })

  test('counts a run whose lease was lost until the last successful write of the run', () => {
    const frozen = [begin(), write({ at: 15 }), write({ at: 90, outcome: 'refused' })]
    assert.deepEqual(check([...frozen, ...run('next', [50, 60])], { maxRunning: 1 }), [])
    assert.equal(check([...frozen, ...run('next', [12, 20])], { maxRunning: 1 }).length, 1)
  })

  test('counts a run that resumes after its lease until the end of the lease', () => {
    const frozen = [begin(), write({ at: 1500 })]
    assert.deepEqual(check([...frozen, ...run('next', [1100, 1200])], { maxRunning: 1 }), [])
    assert.equal(check([...frozen, ...run('next', [900, 1200])], { maxRunning: 1 }).length, 1)
  })

  test('counts the lease of a run from its begin, even if its worker received the run later', () => {
    const late = [begin({ at: 800, startedMs: 10 }), write({ at: 1500 })]
    const prompt = run('prompt', [5, 6])
    assert.deepEqual(check([...prompt, ...late, ...run('next', [1100, 1200])], { maxRunning: 1 }), [])
  })

  test('finds more runs of an owner than maxRunningPerOwner, in a pool and for a definition', () => {
    const two = [...run('one', [10, 30]), ...run('two', [20, 30])]
    assert.deepEqual(check(two, { maxRunningPerOwner: 2 }), [])
    assert.deepEqual(check(two, { maxRunningPerOwner: 1 }), ['more than maxRunningPerOwner run'])
    const named = check(two, { perOwnerOf: { limited: 1 } })
    assert.deepEqual(named, ['more than maxRunningPerOwner of limited run'])
  })

  test('finds more begins in a window than startsPer', () => {
    const starts = (...times: readonly number[]): HistoryEvent[] => (
      times.map((startedMs, at) => begin({ task: String(at), startedMs }))
    )
    const startsPer = { count: 2, ms: 100 }
    assert.deepEqual(check(starts(0, 50, 100, 150), { startsPer }), [])
    assert.deepEqual(check(starts(0, 50, 90), { startsPer }), ['more runs began than startsPer allows'])
  })

  test('finds a run that begins in a paused pool', () => {
    const pause = { kind: 'pause', pool: 'limited', fromMs: 100, untilMs: 200 } as const
    assert.deepEqual(checkPauses([pause, begin({ startedMs: 99 }), begin({ startedMs: 201 })]), [])
    assert.deepEqual(checkPauses([pause, begin({ startedMs: 150, pool: 'fair' })]), [])
    const wrong = found(checkPauses([pause, begin({ startedMs: 150 })]))
    assert.deepEqual(wrong, ['a run began in a paused pool'])
  })
})

describe('the check of turns', () => {
  /** Tasks of one owner, all created at 0, that begin one after the other. */
  const tasksOf = (owner: string, count: number): Begin[] => Array.from({ length: count }, (_, at) => (
    begin({ task: `${owner}-${String(at)}`, owner, firstMs: 10 + at })
  ))
  const newcomer = (firstMs: number): Begin => begin({ task: 'new', owner: 'new', createdMs: 9, firstMs })

  test('accepts a new owner who waits for one turn and for the taken places', () => {
    assert.deepEqual(checkTurns([...tasksOf('heavy', 9), newcomer(13)], 'limited', 2), [])
  })

  test('finds a new owner who waits for all tasks of another owner', () => {
    const wrong = checkTurns([...tasksOf('heavy', 9), newcomer(20)], 'limited', 2)
    assert.deepEqual(found(wrong), ['a new owner waited for more than a turn and 2 places'])
  })

  test('does not count a further run of a task as another task', () => {
    const again = tasksOf('heavy', 3).map((task) => ({ ...task, run: 2, startedMs: 15 }))
    assert.deepEqual(checkTurns([...tasksOf('heavy', 3), ...again, newcomer(20)], 'limited', 2), [])
  })
})

describe('the check of business keys', () => {
  const TWO = 'two unfinished tasks have one business key'

  test('accepts tasks with one key, one after the other', () => {
    const tasks = [
      { task: 'b', key: 'k', createdMs: 20 }, { task: 'a', key: 'k', createdMs: 10, finishedMs: 20 },
      { task: 'c', key: 'other', createdMs: 15, finishedMs: 30 },
    ]
    assert.deepEqual(checkKeys(tasks), [])
  })

  test('finds two unfinished tasks with one key', () => {
    const second = { task: 'b', key: 'k', createdMs: 20 }
    const ended = { task: 'a', key: 'k', createdMs: 10, finishedMs: 21 }
    assert.deepEqual(found(checkKeys([second, ended])), [TWO])
    assert.deepEqual(found(checkKeys([second, { task: 'a', key: 'k', createdMs: 10 }])), [TWO])
  })

  test('accepts a run with the input of the last replacement', () => {
    const replaced = submission({ n: 2, outcome: 'replaced', version: 2 })
    assert.deepEqual(checkInputs([submission(), replaced, begin({ n: 2, version: 3 })]), [])
  })

  test('finds a run with an input that had been replaced', () => {
    const replaced = submission({ n: 2, outcome: 'replaced', version: 2 })
    const wrong = found(checkInputs([submission(), replaced, begin({ n: 1, version: 3 })]))
    assert.deepEqual(wrong, ['a run has an input that was replaced'])
  })

  test('finds a run with an input of unknown outcome if another input was the last replacement', () => {
    const unknown = submission({ n: 3, outcome: 'unknown', task: undefined, version: undefined })
    const replaced = submission({ n: 2, outcome: 'replaced', version: 2 })
    assert.deepEqual(checkInputs([replaced, unknown, begin({ n: 3, version: 4 })]), [])
    const wrong = found(checkInputs([replaced, unknown, begin({ n: 3, version: 3 })]))
    assert.deepEqual(wrong, ['a run has an input that was replaced'])
  })

  test('finds a run with an input that was not accepted', () => {
    const late = submission({ n: 2, outcome: 'exists', version: 3 })
    const wrong = found(checkInputs([submission(), late, begin({ n: 2 })]))
    assert.deepEqual(wrong, ['a run has an input that was not accepted'])
  })

  test('finds two runs of a task with two inputs', () => {
    const runs = [begin({ n: 1 }), begin({ n: 2, run: 2, lease: 'b', at: 30 })]
    assert.ok(found(checkInputs([submission(), ...runs])).includes('two runs of a task have two inputs'))
  })
})
