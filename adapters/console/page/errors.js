import { fill, h } from './dom.js'

/** Shows an error in an element with the role alert. `undefined` removes the error. */
export function showError(place, error) {
  if (error === undefined) fill(place)
  else fill(place, errorBox(error))
}

/** Removes the errors of the page, because they belong to another token. */
export function clearErrors() {
  for (const place of document.querySelectorAll('[role=alert]')) fill(place)
}

// An error of a form belongs to the values that were sent, so a change of one removes it.
document.addEventListener('input', ({ target }) => {
  const place = target.closest('form')?.dataset.error
  if (place) showError(document.getElementById(place))
})

/** Returns an element that shows an error. */
export function errorBox({ code = 'console_error', message, status, details }) {
  return h('div', { class: 'error' },
    h('p', {}, h('strong', {}, h('code', {}, code)), status ? ` (${status}) ` : ' ', message),
    detailList(details))
}

/** Lists the faults of the input, each with its pointer. Returns nothing if the server has sent none. */
export function detailList(details = []) {
  if (details.length === 0) return undefined
  return h('ul', { class: 'details' }, details.map(({ pointer, message }) => h('li', {}, pointer ? [h('code', {}, pointer), ' '] : [], message)))
}
