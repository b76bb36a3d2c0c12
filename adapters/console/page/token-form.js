import { access } from './access.js'
import { byId, fill, h } from './dom.js'
import { currentToken, onToken, useToken } from './session.js'

const form = byId('session')
const input = byId('token')
const state = byId('session-state')
const demo = byId('demo')
const START = state.textContent

const offered = demo.dataset.tokens.split(' ').filter((token) => token !== '')
const buttons = offered.map((token) => h('button', { type: 'button', 'data-token': token, onclick: () => { useToken(token) } }, token))
fill(demo, h('span', { class: 'dim' }, 'To try it out:'), buttons)
demo.hidden = offered.length === 0

form.addEventListener('submit', (event) => {
  event.preventDefault()
  useToken(input.value.trim())
})
byId('forget').addEventListener('click', () => {
  useToken('')
  input.focus()
})

onToken(show)
if (currentToken() !== '') void show()

async function show() {
  const token = currentToken()
  input.value = token
  for (const button of buttons) button.setAttribute('aria-pressed', String(button.dataset.token === token))
  state.className = ''
  state.textContent = token === '' ? START : 'Asking the server …'
  if (token === '') return
  let words
  let kind = 'good'
  try {
    await access()
    words = `The server knows this token${offered.includes(token) ? `: ${token}` : ''}.`
  } catch (error) {
    words = `${error.code}: ${error.message}`
    kind = 'bad'
  }
  // The user may have chosen another token in the meantime.
  if (token !== currentToken()) return
  state.className = kind
  state.textContent = words
}
