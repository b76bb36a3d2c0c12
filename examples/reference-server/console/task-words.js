import { client } from './api.js'
import { readPartialResults } from './longhaul-client.js'
import { freed, take } from './watching.js'

/** Shows what a task emits in an element, from the first word, until the task is final. */
export async function showWords(handle, element, signal) {
  let release
  while ((release = take()) === undefined) await freed()
  try {
    element.hidden = false
    element.textContent = ''
    const onGap = () => { element.textContent = '' }
    for await (const { value } of readPartialResults(client, handle, { signal, onGap })) {
      element.append(`${value} `)
    }
  } finally {
    release()
    // The result has them all.
    element.hidden = true
  }
}
