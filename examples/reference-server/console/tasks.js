import { client } from './api.js'
import { announce, byId, isBusy, setBusy } from './dom.js'
import { showError } from './errors.js'
import { currentToken, onToken, read, write } from './session.js'
import { TaskRow } from './task-row.js'

const SAVED = 'longhaul.tasks'
const KEPT = 20

const form = byId('task-form')
const name = byId('task-name')
const list = byId('task-list')
const submit = form.querySelector('[type=submit]')
let rows = []

name.addEventListener('change', showFields)
form.addEventListener('submit', (event) => {
  event.preventDefault()
  void start()
})
byId('task-clear').addEventListener('click', () => {
  const ended = rows.filter((row) => row.ended)
  keep(rows.filter((row) => !row.ended))
  for (const row of ended) row.remove()
  announce(`${ended.length} tasks cleared.`)
})
onToken(load)
showFields()
load()

function showFields() {
  for (const field of form.querySelectorAll('[data-task]')) {
    field.hidden = field.dataset.task !== name.value
    // What can't be seen must not stop the form.
    for (const input of field.querySelectorAll('input')) input.disabled = field.hidden
  }
}

function input() {
  if (name.value === 'wait') {
    return { ms: Math.round(byId('task-seconds').valueAsNumber * 1000), ...byId('task-fail').checked && { fail: true } }
  }
  const role = byId('task-role').value.trim()
  return name.value === 'export-users' && role !== '' ? { role } : {}
}

async function start() {
  if (isBusy(submit)) return
  const token = currentToken()
  const callbackUrl = byId('task-callback').value.trim()
  const task = name.value
  setBusy(submit, true)
  showError(byId('task-error'))
  try {
    const handle = await client.submit('/api/long-running-task', { task, data: input(), ...callbackUrl !== '' && { callbackUrl } })
    if (token === currentToken()) add(handle, task)
    announce(`The task ${task} was accepted.`)
  } catch (error) {
    showError(byId('task-error'), error)
  } finally {
    setBusy(submit, false)
  }
}

function add(handle, task) {
  const row = new TaskRow(handle, task, { onLost: () => { keep(rows) } })
  list.prepend(row.element)
  keep([row, ...rows])
  void row.watch()
}

/** The tasks of this token, as they were before the page was loaded again. */
function load() {
  for (const row of rows) row.remove()
  rows = []
  const saved = savedTasks()[currentToken()] ?? []
  for (const { task, handle } of [...saved].reverse()) add(client.resume(handle), task)
  keep(rows)
}

function keep(next) {
  for (const row of next.slice(KEPT)) row.remove()
  rows = next.slice(0, KEPT)
  byId('task-none').hidden = rows.length > 0
  if (currentToken() === '') return
  const all = savedTasks()
  all[currentToken()] = rows.filter(({ lost }) => !lost).map(({ task, handle }) => ({ task, handle }))
  write(SAVED, JSON.stringify(all))
}

function savedTasks() {
  try {
    return JSON.parse(read(SAVED) || '{}')
  } catch {
    return {}
  }
}
