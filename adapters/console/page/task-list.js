import { byId } from './dom.js'
import { showError } from './errors.js'
import { Paging } from './paging.js'
import { isSignedIn, onToken } from './session.js'
import { ownTasks } from './task-calls.js'
import { TaskRow } from './task-row.js'

const filters = byId('task-filters')
const list = byId('task-list')
const state = byId('task-state')
let rows = []
const paging = new Paging({ previous: byId('task-previous'), next: byId('task-next') }, show)

filters.addEventListener('change', () => { void readFirst() })
filters.addEventListener('submit', (event) => {
  event.preventDefault()
  void readFirst()
})
onToken(() => {
  // Rows of another token must not stay if the list cannot be read.
  paging.clear()
  void readFirst()
})
void readFirst()

/** Shows a task that was just submitted. Resets filters and pages, which could hide it. */
export async function showNew(task) {
  if (isFiltered() || paging.number > 1) {
    filters.reset()
    await readFirst()
  }
  if (rows.some(({ taskId }) => taskId === task.taskId)) return
  const row = rowOf(task)
  rows = [row, ...rows]
  list.prepend(row.element)
  void row.watch()
  describeState()
}

/** Returns the chosen filters. `''` does not filter. */
function chosen() {
  const { status, task, minutes } = filters.elements
  const from = minutes.value === ''
    ? ''
    : new Date(Date.now() - Number(minutes.value) * 60_000).toISOString()
  return { status: status.value, task: task.value, from }
}

function isFiltered() {
  return Object.values(chosen()).some((value) => value !== '')
}

async function readFirst() {
  if (!isSignedIn()) paging.clear()
  else await paging.first(ownTasks(chosen()))
}

/** Shows a page. Rows that were there before keep their state, their event streams and the focus. */
function show(items, error) {
  showError(byId('task-list-error'), error)
  const known = new Map(rows.map((row) => [row.taskId, row]))
  rows = items.map((task) => {
    const row = known.get(task.taskId)
    known.delete(task.taskId)
    row?.refresh(task)
    return row ?? rowOf(task)
  })
  for (const row of known.values()) row.remove()
  // An element that is moved loses the focus, so rows that are in place are not moved.
  rows.forEach((row, at) => {
    if (list.children[at] !== row.element) list.insertBefore(row.element, list.children[at] ?? null)
  })
  for (const row of rows) void row.watch()
  describeState()
}

function describeState() {
  const none = isFiltered() ? 'No task matches the filters.' : 'No tasks yet.'
  const count = `${rows.length} ${rows.length === 1 ? 'task' : 'tasks'}`
  state.textContent = rows.length === 0 ? none : `Page ${paging.number}: ${count}, newest first.`
}

function rowOf(task) {
  return new TaskRow(task, { onForgotten: removeRow })
}

/** Removes a row. If it has the focus, moves the focus to its neighbour. */
function removeRow(row) {
  const at = rows.indexOf(row)
  const hadFocus = row.element.contains(document.activeElement)
  rows = rows.filter((other) => other !== row)
  row.remove()
  describeState()
  if (!hadFocus) return
  const neighbour = rows[Math.min(at, rows.length - 1)]
  if (neighbour) neighbour.focus()
  else byId('tasks-title').focus()
}
