import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTasks, defineTask, taskEndpoints } from '../../../src/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { coreOf } from '../../../src/tasks/tasks.js'

const report = defineTask({ name: 'report', run: () => 1 })
const options = { statusPath: '/tasks/{id}', owner: 'anyone' } as const

describe('the object that createTasks returns', () => {
  test('has its own methods only', () => {
    const tasks = createTasks({ ...memory(), definitions: [report] })
    assert.deepEqual(Object.keys(tasks), [])
    assert.equal(coreOf(tasks).settings.maxInputBytes, 1_048_576)
  })

  test('does not work with the endpoints of another copy of the package', async () => {
    const copy = '../../../src/tasks/tasks.js?copy'
    const other = await import(copy) as typeof import('../../../src/tasks/tasks.js')
    const tasks = createTasks({ ...memory(), definitions: [report] })
    assert.throws(() => other.coreOf(tasks, 'taskEndpoints'), {
      name: 'TypeError', message: /^taskEndpoints: these tasks come from another copy of longhaul/,
    })
  })

  test('is required by endpoints, which throw for any other value', () => {
    for (const wrong of [undefined, null, {}, { definitions: [report] }, 'tasks', 1]) {
      assert.throws(() => taskEndpoints(wrong as never, options), {
        name: 'TypeError', message: 'taskEndpoints: pass what createTasks returned, then options',
      })
    }
  })
})
