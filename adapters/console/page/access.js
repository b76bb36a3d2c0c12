import { ask } from './api.js'
import { config } from './config.js'
import { onToken } from './session.js'

let reading

onToken(() => { reading = undefined })

/** Resolves with what the user may see: `{ operator, message? }`. Rejects if the server does not know the user. */
export function access() {
  if (config.access === undefined) return Promise.resolve({ operator: config.operators !== undefined })
  return reading ??= ask('GET', config.access).then((response) => response.json())
}
