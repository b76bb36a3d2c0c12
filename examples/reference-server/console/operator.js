import { ask } from './api.js'
import { announce, byId, fill, h, isBusy, setBusy, table } from './dom.js'
import { showError } from './errors.js'
import { Paging } from './paging.js'
import { currentToken, onToken } from './session.js'
import { allTasks, operatorHandleOf, retryFailed } from './task-calls.js'
import { callbackWords, statusWords, time } from './task-parts.js'

const COUNT = new Intl.NumberFormat('en')

const filters = byId('operator-filters')
const view = byId('operator-view')
const state = byId('operator-state')
const buttons = { previous: byId('operator-previous'), next: byId('operator-next') }
const paging = new Paging(buttons, showTasks)
/** Owner whose tasks are shown; `''` for all. */
let shownOwner = ''

filters.addEventListener('change', () => { void load() })
filters.addEventListener('submit', (event) => {
  event.preventDefault()
  void load()
})
onToken(() => {
  filters.reset()
  void load()
})
void load()

/** Reads the overview, and the first page of tasks. Only a token with the role admin may. */
async function load() {
  const token = currentToken()
  showError(byId('operator-error'))
  if (token === '') {
    close('')
    return
  }
  try {
    const overview = await readJson('/admin/overview')
    const { pools } = await readJson('/admin/pools')
    if (token !== currentToken()) return
    showOverview(overview)
    showPools(pools)
  } catch (error) {
    if (token !== currentToken()) return
    close(error.status === 403 ? 'This view needs a token with the role admin.' : '')
    if (error.status !== 403 && error.status !== 401) showError(byId('operator-error'), error)
    return
  }
  const { status, owner } = filters.elements
  shownOwner = owner.value.trim()
  await paging.first(allTasks({ status: status.value, owner: shownOwner }))
}

async function readJson(path) {
  return (await ask('GET', path)).json()
}

function close(words) {
  view.hidden = true
  state.textContent = words
  paging.clear()
}

function showOverview({ counts, oldestQueued, callbacks }) {
  view.hidden = false
  state.textContent = ''
  fill(byId('operator-counts'), Object.entries(counts).map(([status, { count, more }]) => h('div', {},
    h('dt', {}, status),
    h('dd', {}, COUNT.format(count), more && h('small', {}, ' or more')))))
  fill(byId('operator-oldest'), oldestWords(oldestQueued))
  showCallbacks(callbacks)
}

function oldestWords(oldest) {
  if (oldest === undefined) return ['No task waits for a run.']
  const { taskId, task, owner, createdAt, pool } = oldest
  return [
    'Oldest waiting task: ', h('strong', {}, task), ' ', shortId(taskId), ` of ${ownerWords(owner)}, `,
    `in the pool ${pool}, created `, time(createdAt), '.',
  ]
}

function showPools(pools) {
  const rows = pools.map(({ pool, running, waiting, oldestWaitingMs }) => h('tr', {},
    h('td', {}, pool),
    h('td', { class: 'number' }, COUNT.format(running)),
    h('td', { class: 'number' }, COUNT.format(waiting)),
    h('td', { class: 'number' }, oldestWaitingMs === undefined ? '–' : `${Math.round(oldestWaitingMs / 1000)} s`)))
  const heads = ['Pool', 'Running', 'Waiting', 'Oldest waits']
  fill(byId('operator-pools'), rows.length > 0 && table('Table of pools', heads, rows))
}

function showCallbacks({ examined, failed }) {
  const rows = failed.map(({ taskId, task, owner, callback }) => h('tr', {},
    h('td', {}, task, ' ', shortId(taskId)),
    h('td', {}, ownerWords(owner)),
    h('td', {}, callbackWords(callback).slice(1))))
  const heads = ['Task', 'Owner', 'Callback']
  fill(byId('operator-callbacks'), rows.length > 0
    ? table('Table of callbacks that failed', heads, rows)
    : h('p', { class: 'dim' }, `None of the latest ${examined} ended tasks.`))
}

function showTasks(items, error) {
  showError(byId('operator-error'), error)
  const rows = items.map((task) => h('tr', {},
    h('td', {}, task.task, ' ', shortId(task.taskId)),
    h('td', {}, ownerWords(task.owner)),
    h('td', {}, h('span', { class: `badge ${statusWords(task)}` }, statusWords(task))),
    h('td', {}, time(task.createdAt)),
    h('td', {}, task.error && h('code', { class: 'bad' }, task.error.code)),
    h('td', {}, actionsOf(task))))
  const heads = ['Task', 'Owner', 'Status', 'Created', 'Error', 'Actions']
  const none = h('p', { class: 'dim' }, 'No task matches the filters.')
  fill(byId('operator-tasks'), rows.length > 0 ? table('Table of all tasks', heads, rows) : none)
  byId('operator-page').textContent = items.length > 0
    ? `Page ${paging.number}: ${items.length} ${items.length === 1 ? 'task' : 'tasks'}.`
    : ''
}

function actionsOf({ taskId, task, status }) {
  const handle = operatorHandleOf(taskId)
  const what = `${task} ${taskId.slice(0, 6)}`
  const button = (words, label, run) => h('button', {
    'type': 'button', 'aria-label': label, 'onclick': ({ currentTarget }) => { void act(currentTarget, run) },
  }, words)
  const isFinal = status !== 'processing'
  const owner = shownOwner
  const all = `Retry all failed ${task}${owner === '' ? '' : ` of ${owner}`}`
  return h('div', { class: 'buttons' },
    !isFinal && button('Cancel', `Cancel ${what}`, () => handle.cancel()),
    isFinal && status !== 'completed' && button('Retry', `Retry ${what}`, () => handle.retry()),
    isFinal && button('Forget', `Forget ${what}`, () => handle.forget()),
    status === 'failed' && button('Retry all', all, async () => {
      const { retried, failed } = await retryFailed({ task, owner })
      announce(`${COUNT.format(retried)} of ${COUNT.format(retried + failed)} tasks were retried.`)
    }))
}

/** Runs what a button does, and reads the view again. */
async function act(button, run) {
  if (isBusy(button)) return
  setBusy(button, true)
  try {
    await run()
    await load()
    // The row of the button is another one now.
    byId('operator-tasks-title').focus()
  } catch (error) {
    showError(byId('operator-error'), error)
  } finally {
    setBusy(button, false)
  }
}

function ownerWords(owner) {
  return owner ?? 'nobody'
}

function shortId(taskId) {
  return h('code', { class: 'dim', title: taskId }, taskId.slice(0, 6))
}
