import { ask, client } from './api.js'

const STATUS = '/api/status'
/** Number of tasks on a page. */
const PAGE_SIZE = 10

/** Returns the path of the first page of the own tasks. A filter that is `''` does not filter. */
export function listPath({ status, task, from }) {
  return `${STATUS}?${queryOf({ status, task, from })}`
}

/** Returns the path of the first page of the tasks of all owners. Needs the role admin. */
export function operatorListPath({ status, owner }) {
  return `/admin/tasks?${queryOf({ status, owner })}`
}

/** Reads a page of a list: its items, and the path of the next page unless it is the last one. */
export async function readPage(path) {
  const response = await ask('GET', path)
  return response.json()
}

/** Returns the handle of `longhaul/client` for a task. */
export function handleOf(taskId) {
  return client.resume({ taskId, statusUrl: statusPath(taskId) })
}

function statusPath(taskId) {
  return `${STATUS}/${encodeURIComponent(taskId)}`
}

function queryOf(filters) {
  const given = Object.entries(filters).filter(([, value]) => value !== '')
  return new URLSearchParams({ ...Object.fromEntries(given), limit: PAGE_SIZE })
}
