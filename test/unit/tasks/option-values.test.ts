// Values that are stored with a task or written into a header: their length and their names are
// checked, with an error that says what is allowed.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { exportTask } from 'longhaul/export'
import { memory } from 'longhaul/memory'
import { testContext } from 'longhaul/testing'

describe('external resources', () => {
  const kept = { of: () => 'name', release: () => undefined }
  for (const [what, external] of Object.entries({
    'an unknown name': { ...kept, relaese: () => undefined },
    'no release': { of: kept.of },
    'no of': { release: kept.release },
    'renew that is no function': { ...kept, renew: true },
    'no object': 'name',
  })) {
    test(`are rejected by defineTask with a TypeError for ${what}`, () => {
      assert.throws(() => defineTask({ name: 'x', run: () => ({}), external: external as never }), {
        name: 'TypeError',
        message: /external/,
      })
    })
  }

  test('are rejected by submit if a name is not text, is empty or is too long', async (t) => {
    for (const [name, isValid] of [
      ['a'.repeat(1024), true],
      ['a'.repeat(1025), false],
      ['', false],
      [7, false],
      [undefined, false],
    ] as const) {
      const task = defineTask({ name: 'x', run: () => ({}), external: { ...kept, of: () => name as string } })
      const tasks = createTasks({ ...memory(), definitions: [task] })
      t.after(() => tasks.close())
      if (isValid) await tasks.submit(task, {})
      else
        await assert.rejects(tasks.submit(task, {}), {
          name: 'TypeError',
          message: /external\.of must return a string of 1 to 1024/,
        })
    }
  })
})

test('a context of 64 KiB as JSON is stored with a task, and a larger one throws a TypeError, for any size of the input', async (t) => {
  const task = defineTask({
    name: 'x',
    run: (_: { text?: string }, { context }: { context: { text: string } }) => ({ size: context.text.length }),
  })
  const tasks = createTasks({ ...memory(), definitions: [task] })
  t.after(() => tasks.close())
  const room = 65_536 - JSON.stringify({ text: '' }).length
  await tasks.submit(task, { text: 'x'.repeat(100_000) }, { context: { text: 'x'.repeat(room) } })
  await assert.rejects(tasks.submit(task, {}, { context: { text: 'x'.repeat(room + 1) } }), {
    name: 'TypeError',
    message: /context has 65537 characters as JSON, and may have 65536/,
  })
})

test('the names and lengths of columns are checked when the task is defined', () => {
  const define = (columns: unknown) =>
    exportTask({ name: 'users', format: 'csv', records: () => [{ id: 1 }], columns: columns as never })
  for (const columns of [
    ['id'],
    [{ key: 'id' }, { key: 'name', header: 'Name' }],
    ['x'.repeat(1024)],
    [{ key: 'id', header: '' }],
  ])
    assert.equal(define(columns).name, 'users')
  for (const columns of [
    [],
    'id',
    [7],
    [null],
    [''],
    [{ header: 'Id' }],
    [{ key: 'id', heading: 'Id' }],
    [{ key: 7 }],
    [{ key: 'id', header: 7 }],
    ['x'.repeat(1025)],
    [{ key: 'id', header: 'x'.repeat(1025) }],
    Array.from({ length: 10_001 }, () => 'id'),
  ]) {
    assert.throws(() => define(columns), { name: 'TypeError', message: /columns/ })
  }
})

test('files.write accepts a media type of at most 255 characters without a line break, and its message stays short', async () => {
  const context = testContext(defineTask({ name: 'x', files: true, run: () => ({}) }))
  await context.files.write('a', 'x', { type: `text/${'x'.repeat(250)}` })
  for (const type of [
    `text/${'x'.repeat(251)}`,
    'text/html\r\nset-cookie: a=b',
    'text',
    '',
    'text/html, text/plain',
    7 as never,
  ]) {
    await assert.rejects(
      context.files.write('b', 'x', { type }),
      (error: Error) =>
        error.name === 'TypeError' && /type must be a media type/.test(error.message) && error.message.length < 250,
    )
  }
})
