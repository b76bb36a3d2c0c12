import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, jsonSchema } from 'longhaul'
import { partialResults, type PartialResults } from 'longhaul/partial'
import type { Store } from 'longhaul/stores'

/** Time between two words, in milliseconds. */
const WORD_MS = 80
const STORY = 'A client asked for a long story. The server did not let it wait: it accepted the task, and told one word after the other while '
  + 'the work went on. The page was reloaded, and the words went on where they were. The worker was stopped, and another one told the rest.'

/** The words of the tasks `tell`. */
export function storyWords(store: Store): PartialResults<string> {
  return partialResults<string>({ store })
}

/** Tells a story word by word, as a language model would. */
export function tell(words: PartialResults<string>) {
  return defineTask({
    name: 'tell',
    input: jsonSchema<object>({ type: 'object', additionalProperties: false }),
    external: words.external,
    run: words.run(async (_input: object, { emit, emitted, signal }) => {
      const { count } = await emitted()
      for (const word of STORY.split(' ').slice(count)) {
        await sleep(WORD_MS, undefined, { signal })
        await emit(word)
      }
      return { message: STORY }
    }),
  })
}
