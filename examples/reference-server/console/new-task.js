import { client } from './api.js'
import { announce, byId, isBusy, setBusy } from './dom.js'
import { showError } from './errors.js'
import { currentToken } from './session.js'
import { showNew } from './task-list.js'

const form = byId('task-form')
const name = byId('task-name')
const submit = form.querySelector('[type=submit]')

name.addEventListener('change', showFields)
form.addEventListener('submit', (event) => {
  event.preventDefault()
  void start()
})
showFields()

/** Shows the fields of the chosen task. Disables the others, because they must not be validated. */
function showFields() {
  for (const field of form.querySelectorAll('[data-task]')) {
    field.hidden = field.dataset.task !== name.value
    for (const input of field.querySelectorAll('input')) input.disabled = field.hidden
  }
}

function input() {
  if (name.value === 'wait') {
    const ms = Math.round(byId('task-seconds').valueAsNumber * 1000)
    return { ms, ...byId('task-fail').checked && { fail: true } }
  }
  const role = byId('task-role').value.trim()
  if (name.value === 'invite') return { email: byId('task-email').value.trim() }
  return name.value === 'export-users' && role !== '' ? { role } : {}
}

function callback() {
  const callbackUrl = byId('task-callback').value.trim()
  return callbackUrl === '' ? {} : { callbackUrl }
}

/** Returns the start of a task for later. */
function later() {
  const seconds = byId('task-start').value
  if (seconds === '') return {}
  return { startAt: new Date(Date.now() + Number(seconds) * 1000).toISOString() }
}

async function start() {
  if (isBusy(submit)) return
  const token = currentToken()
  const task = name.value
  setBusy(submit, true)
  showError(byId('task-error'))
  try {
    const body = { task, data: input(), ...callback(), ...later() }
    const { taskId } = await client.submit('/api/long-running-task', body)
    announce(`The task ${task} was accepted.`)
    if (token === currentToken()) await showNew({ taskId, task, status: 'processing' })
  } catch (error) {
    showError(byId('task-error'), error)
  } finally {
    setBusy(submit, false)
  }
}
