import { config } from './config.js'

// The token is kept for this tab, and for no longer.
const KEY = 'longhaul.token'
const changes = new EventTarget()
let token = read(KEY)

/** Returns the bearer token; `''` if there is none. */
export function currentToken() {
  return token
}

/** Returns true if the page can send requests: it has a token, or needs none. */
export function isSignedIn() {
  return !config.bearer || token !== ''
}

/** Uses another token, or `''` for none, and notifies the listeners. */
export function useToken(next) {
  token = next
  write(KEY, next)
  changes.dispatchEvent(new Event('change'))
}

/** Calls `listen` after each change of the token. */
export function onToken(listen) {
  changes.addEventListener('change', () => { listen() })
}

/** Returns the string that this tab keeps under a name; `''` if there is none. */
export function read(name) {
  try {
    return sessionStorage.getItem(name) ?? ''
  } catch {
    // The browser keeps nothing for this page.
    return ''
  }
}

/** Keeps a string under a name for this tab; `''` deletes it. */
export function write(name, text) {
  try {
    if (text === '') sessionStorage.removeItem(name)
    else sessionStorage.setItem(name, text)
  } catch {
    // The string is then lost at the next reload.
  }
}
