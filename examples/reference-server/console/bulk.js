import { ask } from './api.js'
import { BulkRow } from './bulk-row.js'
import { announce, byId, isBusy, setBusy } from './dom.js'
import { showError } from './errors.js'

const EXAMPLE = [
  { name: 'Mary Jackson', email: 'mary@nasa.example' },
  { name: 'No address' },
  { name: 'Mary again', email: 'MARY@nasa.example' },
  { name: 'Ada Allen', email: 'ada.allen@example.com' },
]
const MOST = 50

const form = byId('bulk-form')
const list = byId('bulk-items')
const submit = form.querySelector('[type=submit]')
const report = byId('bulk-report')
let rows = []

form.addEventListener('submit', (event) => {
  event.preventDefault()
  void create()
})
byId('bulk-add').addEventListener('click', () => { add().focus() })
byId('bulk-example').addEventListener('click', () => {
  for (const row of rows) row.element.remove()
  rows = []
  for (const user of EXAMPLE) add(user)
  report.textContent = ''
  report.className = ''
  showError(byId('bulk-error'))
  announce(`${EXAMPLE.length} users to create, some of them with mistakes.`)
})
add({ name: '', email: '' })

function add(user = {}) {
  const row = new BulkRow(user, () => { remove(row) })
  if (rows.length < MOST) {
    rows.push(row)
    list.append(row.element)
    number()
  }
  return row
}

function remove(row) {
  const at = rows.indexOf(row)
  rows = rows.filter((other) => other !== row)
  row.element.remove()
  number()
  // The focus moves to the next row.
  const next = rows[Math.min(at, rows.length - 1)]
  if (next) next.focus()
  else byId('bulk-add').focus()
}

function number() {
  for (const [at, row] of rows.entries()) row.number(at + 1)
}

async function create() {
  if (isBusy(submit)) return
  const open = rows.filter((row) => !row.created)
  if (open.length === 0) {
    report.textContent = 'There is no user to create. Add one.'
    return
  }
  setBusy(submit, true)
  showError(byId('bulk-error'))
  for (const row of open) row.mark(undefined)
  try {
    show(open, await send(open.map((row) => row.value)))
  } catch (error) {
    report.textContent = ''
    showError(byId('bulk-error'), error)
  } finally {
    setBusy(submit, false)
  }
}

/** Returns the report with the status of its response. If no user was created, the response is an error. */
async function send(users) {
  try {
    const response = await ask('POST', '/api/users/bulk', { body: JSON.stringify(users), headers: { 'content-type': 'application/json' } })
    return { status: response.status, ...await response.json() }
  } catch (error) {
    if (!Array.isArray(error.body?.items)) throw error
    return { status: error.status, ...error.body }
  }
}

function show(open, { status, summary: { succeeded, failed }, items }) {
  for (const item of items) open[item.index]?.mark(item)
  report.className = failed === 0 ? 'good' : 'warn'
  report.textContent = `${status}: ${succeeded} created, ${failed} refused.`
  if (succeeded > 0) document.dispatchEvent(new Event('users'))
  open.find((row) => !row.created)?.focus()
}
