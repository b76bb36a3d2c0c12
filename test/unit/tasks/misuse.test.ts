import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { refusesCall } from '../kit/refuses.js'

// As a user of plain JavaScript calls them.
const make = { createTasks, defineTask, taskEndpoints } as unknown as Record<
  'createTasks' | 'defineTask' | 'taskEndpoints',
  (...args: unknown[]) => unknown
>
const run = () => 1
const echo = defineTask({ name: 'echo', run })

function refuses(cases: readonly (readonly [title: string, call: () => unknown, message: string])[]): void {
  for (const [title, call, message] of cases) test(title, () => { refusesCall(call, message) })
}

describe('defineTask', () => {
  const define = (options?: unknown) => () => make.defineTask(options)
  const given = (options: object) => define({ name: 'a', run, ...options })
  refuses([
    ['nothing', define(), 'defineTask(undefined): pass options, such as { name }'],
    [
      'a name that is misspelt',
      define({ nam: 'a', run }),
      'defineTask(undefined): there is no option "nam"; did you mean "name"?',
    ],
    [
      'an option that is misspelt',
      given({ timeout: 100 }),
      'defineTask("a"): there is no option "timeout"; did you mean "timeoutMs"?',
    ],
    ['an option of other libraries', given({ schema: {} }), 'defineTask("a"): there is no option "schema".'],
    [
      'text for a number',
      given({ timeoutMs: '100' }),
      'defineTask("a"): timeoutMs must be a number of milliseconds from 1 to 2147483647, not "100"',
    ],
    ['a broken number', given({ attempts: 1.5 }), 'defineTask("a"): attempts must be a whole number from 1, not 1.5'],
    [
      'too short a time',
      given({ retentionMs: 1 }),
      'defineTask("a"): retentionMs must be a number of milliseconds from 1000 to 3155760000000, not 1',
    ],
    [
      'text for a schema',
      given({ input: 'x' }),
      'defineTask("a"): input must be a Standard Schema (wrap a JSON Schema in jsonSchema()), not "x"',
    ],
    [
      'a back-off without its time',
      given({ backoff: { type: 'fixed' } }),
      'defineTask("a"): backoff: the option delayMs is missing; it must be a number of milliseconds from 0 to 3155760000000',
    ],
    [
      'a back-off with a misspelt option',
      given({ backoff: { type: 'fixed', delayMs: 1, maxDelay: 5 } }),
      'defineTask("a"): backoff: there is no option "maxDelay"; did you mean "maxDelayMs"?',
    ],
    [
      'a back-off of another type',
      given({ backoff: { type: 'linear', delayMs: 1 } }),
      'defineTask("a"): backoff: type must be \'fixed\' or \'exponential\', not "linear"',
    ],
  ])
  test('accepts a type of arktype, which is a function', () => {
    const schema = Object.assign(() => 1, {
      '~standard': { version: 1, vendor: 'x', validate: (value: unknown) => ({ value }) },
    })
    given({ input: schema })()
  })
})

describe('createTasks', () => {
  const create = (options?: unknown) => () => make.createTasks(options)
  const given = (options: object) => create({ ...memory(), definitions: [echo], ...options })
  const missing = (what: string) =>
    `createTasks: ${what} missing; for one process: createTasks({ ...memory(), definitions })`
  const spread = 'If it is what memory() returned, write createTasks({ ...memory(), definitions })'
  const list = 'createTasks: definitions must be a list of what defineTask returned'
  refuses([
    ['nothing', create(), 'createTasks: pass options, such as { engine }'],
    ['no store and no engine', create({ definitions: [echo] }), missing('engine and store are')],
    ['no engine', create({ store: memory().store, definitions: [echo] }), missing('engine is')],
    ['no store', create({ engine: memory().engine, definitions: [echo] }), missing('store is')],
    [
      'memory() as the engine',
      given({ engine: memory() }),
      `createTasks: engine must be a task engine, not an object. ${spread}`,
    ],
    [
      'memory() as the store',
      given({ store: memory() }),
      `createTasks: store must be a store, not an object. ${spread}`,
    ],
    [
      'memory() as the blobs',
      given({ blobs: memory() }),
      'createTasks: blobs must be the blobs of memory() or postgres(), or those of longhaul/files, not an object',
    ],
    ['no definitions', create(memory()), list],
    ['definitions that are no list', given({ definitions: { echo } }), list],
    ['a definition that is none', given({ definitions: [undefined] }), list],
    ['a definition that defineTask has not seen', given({ definitions: [{ name: 'a', run }] }), list],
    [
      'a background endpoint in place of its task',
      given({ definitions: [echo, { task: echo, handler: run }] }),
      `${list}; of a background endpoint pass its property task`,
    ],
    [
      'two definitions of one name',
      given({ definitions: [echo, defineTask({ name: 'echo', run })] }),
      'createTasks: two definitions are named echo',
    ],
    [
      'an option that is misspelt',
      given({ onerror: run }),
      'createTasks: there is no option "onerror"; did you mean "onError"?',
    ],
    [
      'text for a number',
      given({ maxWaiters: '5' }),
      'createTasks: maxWaiters must be a whole number from 0, or Infinity, not "5"',
    ],
    [
      'too short a time',
      given({ retentionMs: 1 }),
      'createTasks: retentionMs must be a number of milliseconds from 1000 to 3155760000000, not 1',
    ],
  ])
})

test('an engine is spread into createTasks with its store and its blobs', () => {
  createTasks({ ...memory(), definitions: [echo], worker: false })
})

describe('taskEndpoints', () => {
  const tasks = createTasks({ ...memory(), definitions: [echo] })
  const endpoints = (...args: unknown[]) => () => make.taskEndpoints(...args)
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' }) as unknown as {
    submit: (...args: unknown[]) => unknown
  }
  const path = (given: string) =>
    `taskEndpoints: statusPath must be a path with one {id}, such as '/tasks/{id}', not ${given}`
  refuses([
    ['no options', endpoints(tasks), 'taskEndpoints: pass options, such as { statusPath }'],
    [
      'no tasks',
      endpoints(undefined, { statusPath: '/t/{id}' }),
      'taskEndpoints: pass what createTasks returned, then options',
    ],
    ['no path', endpoints(tasks, {}), path('undefined')],
    ['the path of Express', endpoints(tasks, { statusPath: '/t/:id' }), path('"/t/:id"')],
    [
      'an option that is misspelt',
      endpoints(tasks, { statusPath: '/t/{id}', ownr: run }),
      'taskEndpoints: there is no option "ownr"; did you mean "owner"?',
    ],
    [
      'text for a number',
      endpoints(tasks, { statusPath: '/t/{id}', maxBodyBytes: '1mb' }),
      'taskEndpoints: maxBodyBytes must be a number of bytes from 0, or Infinity, not "1mb"',
    ],
    [
      'submit: nothing',
      () => submit(),
      'submit: pass what defineTask returned, or a function that selects a definition',
    ],
    [
      'submit: a name',
      () => submit('echo'),
      'submit: pass what defineTask returned, or a function that selects a definition',
    ],
    [
      'submit: another definition',
      () => submit(defineTask({ name: 'other', run })),
      'other is not among the definitions of createTasks; add it there',
    ],
    [
      'submit: a misspelt option',
      () => submit(echo, { respnd: 'always' }),
      'submit: there is no option "respnd"; did you mean "respond"?',
    ],
    [
      'submit: another response',
      () => submit(echo, { respond: 'alwys' }),
      "submit: respond must be 'prefer' or 'always', not \"alwys\"",
    ],
  ])
})

test('two createTasks on one engine are rejected with a message that names createTasks and memory()', async (t) => {
  const shared = memory()
  const tasks = createTasks({ ...shared, definitions: [echo] })
  t.after(() => tasks.close())
  assert.throws(
    () => createTasks({ ...shared, definitions: [echo] }),
    /^Error: createTasks: .* Each createTasks needs its own engine: call memory\(\) again$/,
  )
})

describe('calls of tasks', () => {
  const made = (t: { after: (end: () => unknown) => void }) => {
    const tasks = createTasks({ ...memory(), definitions: [echo] })
    t.after(() => tasks.close())
    return tasks
  }
  const none = undefined as never

  test('name the missing options of wait', async (t) => {
    const tasks = made(t)
    const handle = await tasks.submit(echo, {})
    for (const wait of [
      () => tasks.wait(handle.taskId, none),
      () => tasks.ownedBy('ann').wait(handle.taskId, none),
      () => handle.wait(none),
    ]) {
      await assert.rejects(wait, { name: 'TypeError', message: 'wait: pass options, such as { timeoutMs }' })
    }
  })

  test('name an id that is not a string', async (t) => {
    const tasks = made(t)
    const calls = [
      () => tasks.get(none), () => tasks.wait(none, { timeoutMs: 1 }), () => tasks.cancel(none),
      () => tasks.retry(none), () => tasks.delete(none), () => tasks.ownedBy('ann').get(none),
    ]
    for (const call of calls) {
      await assert.rejects(call, { name: 'TypeError', message: 'the id of a task must be a string, not undefined' })
    }
  })
})
