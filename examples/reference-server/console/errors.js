import { fill, h } from './dom.js'

/** Shows what went wrong in a place of role alert: code, words and what of the input is meant; nothing clears it. */
export function showError(place, error) {
  if (error === undefined) {
    fill(place)
    return
  }
  fill(place, errorBox(error))
}

/** An error as an element. */
export function errorBox({ code = 'console_error', message, status, details }) {
  return h('div', { class: 'error' },
    h('p', {}, h('strong', {}, h('code', {}, code)), status ? ` (${status}) ` : ' ', message),
    detailList(details))
}

/** Lists the faults of the input, each with its place. Returns nothing if the server did not say. */
export function detailList(details = []) {
  if (details.length === 0) return undefined
  return h('ul', { class: 'details' }, details.map(({ pointer, message }) => h('li', {}, pointer ? [h('code', {}, pointer), ' '] : [], message)))
}
