// Shows the requests of the page.
import { observeRequests } from './api.js'
import { byId, fill, h, table } from './dom.js'

const KEPT = 40
const rows = h('tbody')

fill(byId('requests-table'), table('Table of requests', ['Request', 'Response', 'ms'], []))
byId('requests-table').querySelector('tbody').replaceWith(rows)
observeRequests((url, init, response) => { void show(url, init, response) })

async function show(url, { method = 'GET', headers, signal }, pending) {
  const began = performance.now()
  const outcome = h('td', {}, '…')
  const took = h('td', { class: 'number' })
  const { pathname, search } = new URL(url, location.href)
  rows.prepend(h('tr', {},
    h('td', {}, h('code', {}, `${method} ${pathname}${search}`), shown(headers, ['prefer', 'range', 'if-range'])), outcome, took))
  while (rows.children.length > KEPT) rows.lastElementChild.remove()
  try {
    const response = await pending
    const kind = response.status >= 400 ? 'bad' : response.status === 207 ? 'warn' : 'good'
    fill(outcome, h('span', { class: kind }, `${response.status} ${response.statusText}`),
      shown(Object.fromEntries(response.headers), ['preference-applied', 'location', 'content-range']))
  } catch {
    fill(outcome, h('span', { class: 'bad' }, signal?.aborted ? 'ended by the page' : 'no response'))
  } finally {
    took.textContent = String(Math.round(performance.now() - began))
  }
}

function shown(fields = {}, names) {
  return names.filter((name) => fields[name]).map((name) => h('span', { class: 'header' }, `${name}: ${fields[name]}`))
}
