import { client } from './api.js'
import { config } from './config.js'

const OWN = config.tasks
const ALL = `${config.operators}/tasks`
/** Number of tasks on a page. */
const PAGE_SIZE = 10

/** Returns the list of the own tasks. A filter that is `''` does not filter. */
export function ownTasks(filters) {
  return client.tasks(OWN, { ...given(filters), limit: PAGE_SIZE })
}

/** Returns the list of the tasks of all owners, of one, or of a tenant. Only operators may read it. */
export function allTasks({ owner, tenant, ...filters }) {
  const path = `${ALL}?${new URLSearchParams(given({ owner, tenant }))}`
  return client.tasks(path, { ...given(filters), limit: PAGE_SIZE, statusPath: `${ALL}/{id}` })
}

/** Returns the handle of a task. */
export function handleOf(taskId) {
  return client.resume({ taskId, statusUrl: `${OWN}/${encodeURIComponent(taskId)}` })
}

/** Returns the handle of a task of any owner, for operators. */
export function operatorHandleOf(taskId) {
  return client.resume({ taskId, statusUrl: `${ALL}/${encodeURIComponent(taskId)}` })
}

/** Counts the failed tasks of a kind, of all owners, of one, or of a tenant. Resolves with `{ count, more }`; `more` if there are more. */
export async function countFailed({ task, owner, tenant }) {
  const path = `${ALL}?${new URLSearchParams(given({ owner, tenant }))}`
  const { items, next } = await client.tasks(path, { status: 'failed', task, limit: 200 }).page()
  return { count: items.length, more: next !== undefined }
}

/** Retries all failed tasks of a kind, of all owners, of one, or of a tenant. Resolves with the report, once it is done. */
export async function retryFailed({ task, owner, tenant }) {
  const query = new URLSearchParams(given({ status: 'failed', task, owner, tenant }))
  const retrying = await client.submit(`${ALL}/retry?${query}`, {})
  return retrying.result()
}

function given(filters) {
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ''))
}
