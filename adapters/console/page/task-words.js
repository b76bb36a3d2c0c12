import { client } from './api.js'
import { fill, h } from './dom.js'
import { readPartialResults } from './longhaul-client.js'
import { freed, take } from './watching.js'

/** Shows what a task emits in an element, from the first word, until the task is final. */
export async function showWords(handle, element, signal) {
  let release
  while ((release = take()) === undefined) await freed()
  // When this call ends, another call may have put its own words there.
  const words = h('span')
  try {
    signal.throwIfAborted()
    fill(element, words)
    element.hidden = false
    const onGap = () => { words.textContent = '' }
    for await (const { value } of readPartialResults(client, handle, { signal, onGap })) words.append(`${value} `)
  } finally {
    release()
    // The result has all of them.
    words.remove()
    element.hidden = !element.hasChildNodes()
  }
}
