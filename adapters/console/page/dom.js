/** Returns the element with an id. */
export function byId(id) {
  return document.getElementById(id)
}

/**
 * Creates an element: `h('a', { href: '/' }, 'Home')`. Attributes that are `undefined` or `false` are left out. `on…` are
 * listeners. Children may be nodes, strings, lists of them, or nothing.
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (value === true) element.setAttribute(key, '')
    else if (value !== undefined && value !== false) element.setAttribute(key, String(value))
  }
  element.append(...children.flat(3).filter((child) => child !== undefined && child !== null && child !== false))
  return element
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== undefined && child !== null && child !== false))
}

/** Returns a table that scrolls by itself in a narrow window, by keyboard too. */
export function table(label, heads, rows) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
    h('table', {},
      h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))),
      h('tbody', {}, rows)))
}

let speaking = 0

/** Makes a screen reader say something after what it says now. */
export function announce(text) {
  const place = byId('announcer')
  // A screen reader repeats a text only if it was empty before.
  place.textContent = ''
  clearTimeout(speaking)
  speaking = setTimeout(() => { place.textContent = text }, 50)
}

/** Marks a button as busy. It is not disabled, because it would lose the focus. Presses do nothing. */
export function setBusy(button, busy) {
  if (busy) button.setAttribute('aria-disabled', 'true')
  else button.removeAttribute('aria-disabled')
}

/** Returns whether a button is busy, or there is nothing for it to do. */
export function isBusy(button) {
  return button.getAttribute('aria-disabled') === 'true'
}

const bytes = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 })

/** Returns a number of bytes in MiB. */
export function mebibytes(count) {
  return `${bytes.format(count / 1_048_576)} MiB`
}

/** Returns a number of bytes with a unit that fits: bytes, KiB or MiB. */
export function byteSize(count) {
  if (count < 1024) return `${count} ${count === 1 ? 'byte' : 'bytes'}`
  return count < 1_048_576 ? `${bytes.format(count / 1024)} KiB` : mebibytes(count)
}
