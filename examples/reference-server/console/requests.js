// What goes over the wire, for whoever wants to know.
import { byId, fill, h, table } from './dom.js'

const KEPT = 40
const rows = h('tbody')

fill(byId('requests-table'), table('Table of requests', ['Request', 'Answer', 'ms'], []))
byId('requests-table').querySelector('tbody').replaceWith(rows)

/** `fetch`, and a line about it. */
export async function traced(url, init = {}) {
  const began = performance.now()
  const answer = h('td', {}, '…')
  const took = h('td', { class: 'number' })
  const { pathname, search } = new URL(url, location.href)
  rows.prepend(h('tr', {},
    h('td', {}, h('code', {}, `${init.method ?? 'GET'} ${pathname}${search}`), said(init.headers, ['prefer', 'range', 'if-range'])), answer, took))
  while (rows.children.length > KEPT) rows.lastElementChild.remove()
  try {
    const response = await fetch(url, init)
    const kind = response.status >= 400 ? 'bad' : response.status === 207 ? 'warn' : 'good'
    fill(answer, h('span', { class: kind }, `${response.status} ${response.statusText}`),
      said(Object.fromEntries(response.headers), ['preference-applied', 'location', 'content-range']))
    return response
  } catch (error) {
    fill(answer, h('span', { class: 'bad' }, init.signal?.aborted ? 'ended by the page' : 'no answer'))
    throw error
  } finally {
    took.textContent = String(Math.round(performance.now() - began))
  }
}

function said(fields = {}, names) {
  const lines = names.filter((name) => fields[name]).map((name) => h('span', { class: 'header' }, `${name}: ${fields[name]}`))
  return lines
}
