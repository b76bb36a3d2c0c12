import { ask } from './api.js'
import { byId, fill, h, isBusy, setBusy, table } from './dom.js'
import { showError } from './errors.js'
import { currentToken, onToken } from './session.js'

const again = byId('versions-again')
const place = byId('versions-table')
const DAY_MS = 86_400_000
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: 'long', timeZone: 'UTC' })

again.addEventListener('click', () => { void load() })
onToken(() => { void load() })
void load()

async function load() {
  showError(byId('versions-error'))
  if (currentToken() === '') {
    fill(place)
    return
  }
  if (isBusy(again)) return
  setBusy(again, true)
  const token = currentToken()
  try {
    const { headers } = await ask('GET', '/users')
    const names = ['api-deprecated-versions', 'api-supported-versions'].flatMap((field) => (headers.get(field) ?? '').split(',').map((name) => name.trim()).filter(Boolean))
    const rows = await Promise.all(names.map(row))
    if (token === currentToken()) fill(place, table('Table of versions', ['Version', 'State', 'Ends', 'A user looks like'], rows))
  } catch (error) {
    if (token === currentToken()) showError(byId('versions-error'), error)
  } finally {
    setBusy(again, false)
    if (token !== currentToken()) void load()
  }
}

async function row(name) {
  const path = `/v${name}/users`
  const response = await ask('GET', path)
  const { headers } = response
  const body = await response.json()
  const [first] = Array.isArray(body) ? body : body.items
  const deprecation = headers.get('deprecation')
  const sunset = headers.get('sunset')
  const successor = /<([^>]*)>\s*;\s*rel="?successor-version"?/.exec(headers.get('link') ?? '')?.[1]
  return h('tr', {},
    h('td', {}, h('code', {}, path)),
    h('td', {}, deprecation === null ? h('span', { class: 'good' }, 'current') : [h('span', { class: 'warn' }, 'deprecated'), h('br'), ' since ', date(deprecation)]),
    h('td', {}, sunset === null ? 'not planned' : [date(sunset), h('br'), left(sunset)], successor && [h('br'), 'then ', h('code', {}, successor)]),
    h('td', {}, h('code', { class: 'excerpt' }, JSON.stringify(first))))
}

function date(field) {
  const time = new Date(field)
  return h('time', { datetime: time.toISOString() }, DATE.format(time))
}

function left(field) {
  const days = Math.floor((Date.parse(field) - Date.now()) / DAY_MS)
  return days < 0 ? 'is over' : `${days} ${days === 1 ? 'day' : 'days'} left`
}
