// npx tsx examples/partial-results/main.ts
// A task whose words appear in the browser while it runs, as those of a language model would. Reload the page, or stop
// and start this program with DATABASE_URL set: the words go on where they were.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, defineTask, jsonSchema, router, stream, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { partialResults } from 'longhaul/partial'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'

const url = process.env['DATABASE_URL']
const { engine, store } = url === undefined ? memory() : postgres({ pool: new pg.Pool({ connectionString: url }) })

const words = partialResults<string>({ store })

/** Stands for a model. It goes on after so many words. */
async function* answerOf(question: string, before: number): AsyncGenerator<string> {
  const text = `You asked: ${question}. ${'This is one more sentence of a long answer. '.repeat(20)}`
  for (const word of text.split(' ').slice(before)) {
    await sleep(100)
    yield `${word} `
  }
}

const answer = defineTask({
  name: 'answer',
  input: jsonSchema<{ question: string }>({
    type: 'object', required: ['question'], properties: { question: { type: 'string', maxLength: 1000 } },
  }),
  external: words.external,
  run: words.run(async ({ question }, { emit, emitted, signal }) => {
    // Some if another process was killed while it ran this task.
    const { count, results } = await emitted()
    let text = results.join('')
    for await (const word of answerOf(question, count)) {
      signal.throwIfAborted()
      await emit(word)
      text += word
    }
    return { text }
  }),
})

const tasks = createTasks({ engine, store, definitions: [answer] })
const endpoints = taskEndpoints(tasks, { statusPath: '/answers/{id}', owner: 'anyone' })

const PAGE = `<!doctype html>
<meta charset="utf-8"><title>Answers</title>
<form><input name="question" value="Why is the sky blue" size="40"><button>Ask</button></form>
<p id="text"></p>
<script>
const text = document.getElementById('text')
let events
function read(path) {
  text.textContent = ''
  events?.close()
  events = new EventSource(path + '/partial-results')
  events.onmessage = ({ data }) => { text.textContent += JSON.parse(data) }
  events.addEventListener('gap', () => { text.textContent = '' })
  events.addEventListener('end', () => { events.close() })
}
document.querySelector('form').onsubmit = async (event) => {
  event.preventDefault()
  const question = event.target.question.value
  const response = await fetch('/answers', {
    method: 'POST', body: JSON.stringify({ question }),
    headers: { 'content-type': 'application/json', 'prefer': 'respond-async' },
  })
  location.hash = response.headers.get('location')
  read(location.hash.slice(1))
}
if (location.hash !== '') read(location.hash.slice(1))
</script>
`

const handler = router({
  'GET /': () => stream(200, (async function* () { yield PAGE })(), { 'content-type': 'text/html; charset=utf-8' }),
  'POST /answers': endpoints.submit(answer),
  'GET|HEAD|DELETE /answers/{id}': endpoints.status,
  'GET|HEAD /answers/{id}/partial-results': words.endpoint(endpoints),
})

const server = createServer(toNode(handler)).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
