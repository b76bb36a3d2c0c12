import { access } from './access.js'
import { ask } from './api.js'
import { config } from './config.js'
import { confirmed } from './confirm.js'
import { announce, byId, fill, h, isBusy, setBusy, table } from './dom.js'
import { showError } from './errors.js'
import { Paging } from './paging.js'
import { currentToken, isSignedIn, onToken } from './session.js'
import { allTasks, countFailed, operatorHandleOf, retryFailed } from './task-calls.js'
import { detailsOf } from './task-details.js'
import { callbackWords, isFinal, statusWords, time } from './task-parts.js'

const COUNT = new Intl.NumberFormat('en')

const panel = byId('operator')
const link = document.querySelector('nav a[href="#operator"]').parentElement
const filters = byId('operator-filters')
const view = byId('operator-view')
const state = byId('operator-state')
const buttons = { previous: byId('operator-previous'), next: byId('operator-next') }
const paging = new Paging(buttons, showTasks)
/** Owner and tenant whose tasks are shown; `''` for all. */
let shownOf = { owner: '', tenant: '' }

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

/** Reads the overview, and the first page of tasks. Asks first whether the user is an operator. */
async function load() {
  const token = currentToken()
  showError(byId('operator-error'))
  if (!isSignedIn()) {
    close('')
    return
  }
  try {
    const { operator, message } = await access()
    if (token !== currentToken()) return
    if (!operator) {
      close(message ?? '')
      // Without a message, the view is of no use to this user.
      panel.hidden = link.hidden = message === undefined
      return
    }
    panel.hidden = link.hidden = false
    const overview = await readJson('overview')
    const { items } = await readJson('pools')
    if (token !== currentToken()) return
    showOverview(overview)
    showPools(items)
  } catch (error) {
    if (token !== currentToken()) return
    close('')
    // The server does not know the user, which the top of the page says.
    if (error.status !== 401) showError(byId('operator-error'), error)
    return
  }
  const { status, owner, tenant } = filters.elements
  shownOf = { owner: owner.value.trim(), tenant: tenant.value.trim() }
  await paging.first(allTasks({ status: status.value, ...shownOf }))
}

async function readJson(name) {
  return (await ask('GET', `${config.operators}/${name}`)).json()
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
    h('dt', {}, status === 'input_required' ? 'needs an answer' : status),
    h('dd', {}, COUNT.format(count), more && h('small', {}, ' or more')))))
  fill(byId('operator-oldest'), oldestWords(oldestQueued))
  showCallbacks(callbacks)
}

function oldestWords(oldest) {
  if (oldest === undefined) return ['No task waits for a run.']
  const { taskId, task, createdAt, pool } = oldest
  return [
    'Oldest waiting task: ', h('strong', {}, task), ' ', shortId(taskId), ` of ${ownerWords(oldest)}, `,
    `in the pool ${pool}, created `, time(createdAt), '.',
  ]
}

function showPools(pools) {
  const rows = pools.map(({ pool, isPaused, running, waiting, oldestWaitingMs }) => h('tr', {},
    h('td', {}, pool, isPaused && ' ', isPaused && h('span', { class: 'badge asking' }, 'paused')),
    h('td', { class: 'number' }, COUNT.format(running)),
    h('td', { class: 'number' }, COUNT.format(waiting)),
    h('td', { class: 'number' }, oldestWaitingMs === undefined ? '–' : `${Math.round(oldestWaitingMs / 1000)} s`),
    h('td', {}, pauseButton(pool, isPaused))))
  const heads = ['Pool', 'Running', 'Waiting', 'Oldest waits', 'Actions']
  fill(byId('operator-pools'), rows.length > 0 && table('Table of pools', heads, rows))
}

function pauseButton(pool, isPaused) {
  const verb = isPaused ? 'Resume' : 'Pause'
  const asks = `Pause the pool ${pool} in all processes? No task begins in it until you resume it. Tasks that run continue.`
  const run = async () => {
    if (!isPaused && !await confirmed(asks, 'Pause')) return false
    await ask(isPaused ? 'DELETE' : 'PUT', `${config.operators}/pause?${new URLSearchParams({ pool })}`)
    announce(`The pool ${pool} was ${isPaused ? 'resumed' : 'paused'}.`)
    return true
  }
  const buttonOf = () => byId('operator-pools').querySelector(`button[data-pool="${pool}"]`)
  return h('button', {
    'type': 'button', 'data-pool': pool, 'aria-label': `${verb} the pool ${pool}`,
    'onclick': ({ currentTarget }) => { void act(currentTarget, run, buttonOf) },
  }, verb)
}

function showCallbacks({ examined, failed }) {
  const rows = failed.map(({ taskId, task, callback, ...of }) => h('tr', {},
    h('td', {}, task, ' ', shortId(taskId)),
    h('td', {}, ownerWords(of)),
    h('td', {}, callbackWords(callback).slice(1))))
  const heads = ['Task', 'Owner', 'Callback']
  fill(byId('operator-callbacks'), rows.length > 0
    ? table('Table of callbacks that failed', heads, rows)
    : h('p', { class: 'dim' }, `None of the latest ${examined} ended tasks.`))
}

function showTasks(items, error) {
  showError(byId('operator-error'), error)
  const rows = items.map(rowOf)
  const heads = ['Task', 'Owner', 'Status', 'Created', 'Error', 'Actions']
  const none = h('p', { class: 'dim' }, 'No task matches the filters.')
  fill(byId('operator-tasks'), rows.length > 0 ? table('Table of all tasks', heads, rows) : none)
  byId('operator-page').textContent = items.length > 0
    ? `Page ${paging.number}: ${items.length} ${items.length === 1 ? 'task' : 'tasks'}.`
    : ''
}

function rowOf(task) {
  const words = statusWords(task)
  const row = h('tr', {},
    h('td', {}, task.task, ' ', shortId(task.taskId)),
    h('td', {}, ownerWords(task)),
    h('td', {}, h('span', { class: `badge ${task.status === 'input_required' ? 'asking' : words}` }, words)),
    h('td', {}, time(task.createdAt)),
    h('td', {}, task.error && h('code', { class: 'bad' }, task.error.code)))
  row.append(h('td', {}, actionsOf(task, row)))
  return row
}

function actionsOf(task, row) {
  const { taskId, task: name, status } = task
  const handle = operatorHandleOf(taskId)
  const what = `${name} ${taskId.slice(0, 6)}`
  const button = (words, label, run) => h('button', {
    'type': 'button', 'aria-label': label, 'onclick': ({ currentTarget }) => { void act(currentTarget, run) },
  }, words)
  const hasEnded = isFinal(task)
  const of = shownOf
  const all = `Retry all failed ${name}${isEveryone(of) ? '' : ` of ${filterWords(of)}`}`
  const forgets = `Forget the task ${what} of ${ownerWords(task)}? The server deletes it with its result and its files.`
  return h('div', { class: 'buttons' },
    detailsButton(task, what, row),
    !hasEnded && button('Cancel', `Cancel ${what}`, () => handle.cancel()),
    hasEnded && status !== 'completed' && button('Retry', `Retry ${what}`, () => handle.retry()),
    hasEnded && button('Forget', `Forget ${what}`, async () => (await confirmed(forgets, 'Forget') ? handle.forget() : false)),
    status === 'failed' && config.retryMany && button('Retry all', all, () => retryAll(name, of)))
}

async function retryAll(task, of) {
  const { count, more } = await countFailed({ task, ...of })
  const number = `${more ? 'more than ' : ''}${COUNT.format(count)} failed ${count === 1 ? 'task' : 'tasks'}`
  const whose = isEveryone(of) ? 'of all owners' : `of ${filterWords(of)}`
  if (!await confirmed(`Retry ${number} ${task} ${whose}?`, 'Retry all')) return false
  const { retried, failed } = await retryFailed({ task, ...of })
  announce(`${COUNT.format(retried)} of ${COUNT.format(retried + failed)} tasks were retried.`)
  return true
}

/** Returns a button that shows the details of a task in a row below its own. */
function detailsButton(task, what, row) {
  let details
  const button = h('button', {
    'type': 'button', 'aria-label': `Details of ${what}`, 'aria-expanded': 'false', 'onclick': () => { void toggle() },
  }, 'Details')
  const toggle = async () => {
    if (isBusy(button)) return
    button.setAttribute('aria-expanded', String(details === undefined))
    if (details !== undefined) {
      details.remove()
      details = undefined
      return
    }
    setBusy(button, true)
    details = h('tr', {}, h('td', { colspan: 6 }, await detailsOf(task, load)))
    row.after(details)
    setBusy(button, false)
  }
  return button
}

/**
 * Runs what a button does, and reads the view again. `false` from `run` says that nothing was done.
 *
 * @param next - returns the element that gets the focus then
 */
async function act(button, run, next = () => byId('operator-tasks-title')) {
  if (isBusy(button)) return
  setBusy(button, true)
  showError(byId('operator-error'))
  try {
    if (await run() === false) return
    await load()
    // The view has new rows, and the row of a task may show another one.
    next()?.focus()
  } catch (error) {
    showError(byId('operator-error'), error)
  } finally {
    setBusy(button, false)
  }
}

/** Names who a task belongs to. */
function ownerWords({ owner, tenant }) {
  return tenant === undefined ? owner ?? 'nobody' : `${owner ?? 'nobody'} in ${tenant}`
}

function isEveryone({ owner, tenant }) {
  return owner === '' && tenant === ''
}

function filterWords({ owner, tenant }) {
  if (owner === '') return `the tenant ${tenant}`
  return tenant === '' ? owner : `${owner} in ${tenant}`
}

function shortId(taskId) {
  return h('code', { class: 'dim', title: taskId }, taskId.slice(0, 6))
}
