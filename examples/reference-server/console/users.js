import { ask } from './api.js'
import { byId, fill, h, isBusy, setBusy, table } from './dom.js'
import { showError } from './errors.js'
import { currentToken, onToken } from './session.js'

const size = byId('users-size')
const state = byId('users-state')
const place = byId('users-table')
const buttons = [...document.querySelectorAll('#users .pager button')]
const COUNT = new Intl.NumberFormat('en')
let links = {}
let asked = 0
let shown

for (const button of buttons) {
  button.addEventListener('click', () => { if (!isBusy(button)) void load(links[button.dataset.rel]) })
}
size.addEventListener('change', () => { void load() })
onToken(() => { void load() })
// Other panels make and change some.
document.addEventListener('users', () => { void load(shown) })
void load()

async function load(path = `/api/users?batch_size=${size.value}`) {
  const mine = ++asked
  showError(byId('users-error'))
  if (currentToken() === '') {
    follow({})
    state.textContent = ''
    fill(place)
    return
  }
  try {
    const response = await ask('GET', path)
    const page = await response.json()
    // The answer to an older question may come late.
    if (mine !== asked) return
    shown = path
    follow(readLinks(response.headers.get('link') ?? ''))
    show(page)
  } catch (error) {
    if (mine === asked) showError(byId('users-error'), error)
  }
}

function show({ items, start, total }) {
  const end = start + items.length
  state.textContent = items.length === 0 ? `None of ${COUNT.format(total)} users.` : `${COUNT.format(start + 1)} to ${COUNT.format(end)} of ${COUNT.format(total)} users.`
  fill(place, table('Table of users', ['Id', 'Name', 'Email', 'Role'], items.map(({ id, name, email, role }) => h('tr', {},
    h('td', { class: 'number' }, String(id)), h('td', {}, name), h('td', {}, email), h('td', {}, role)))))
}

/** Sets the pages that the buttons open. A button without a page does nothing. */
function follow(next) {
  links = next
  for (const button of buttons) setBusy(button, links[button.dataset.rel] === undefined)
}

/** The targets of a Link field by relation (RFC 8288). */
function readLinks(field) {
  return Object.fromEntries([...field.matchAll(/<([^>]*)>\s*;\s*rel="?([a-z-]+)"?/g)].map(([, target, rel]) => [rel, target]))
}
