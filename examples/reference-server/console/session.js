// The token is kept for this tab, and for no longer.
const KEY = 'longhaul.token'
const changes = new EventTarget()
let token = read(KEY)

/** The bearer token; `''` when there is none. */
export function currentToken() {
  return token
}

/** Takes another token, or `''` for none, and tells whoever listens. */
export function useToken(next) {
  token = next
  write(KEY, next)
  changes.dispatchEvent(new Event('change'))
}

/** Calls `listen` after each change of the token. */
export function onToken(listen) {
  changes.addEventListener('change', () => { listen() })
}

/** Reads the text that this tab keeps under a name; `''` if there is none. */
export function read(name) {
  try {
    return sessionStorage.getItem(name) ?? ''
  } catch {
    // The browser keeps nothing for this page.
    return ''
  }
}

/** Keeps a text under a name for this tab; `''` forgets it. */
export function write(name, text) {
  try {
    if (text === '') sessionStorage.removeItem(name)
    else sessionStorage.setItem(name, text)
  } catch {
    // Then it is gone with the page.
  }
}
