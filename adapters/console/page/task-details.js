// What operators see of a task: its questions, its real error, its input and its log.
import { Questions } from './answer-form.js'
import { fill, h } from './dom.js'
import { errorBox } from './errors.js'
import { operatorHandleOf } from './task-calls.js'
import { time } from './task-parts.js'

/** Reads a task, and returns an element with its details. `onChange` is called after an answer. */
export async function detailsOf({ taskId, task }, onChange) {
  const handle = operatorHandleOf(taskId)
  const element = h('div', { class: 'outcome' })
  try {
    const { body } = await handle.status()
    const questions = new Questions(`${task} ${taskId.slice(0, 6)}`, async (answers) => {
      await handle.answer(answers)
      await onChange()
    })
    questions.show(body.inputs)
    fill(element, questions.element, partsOf(body))
  } catch (error) {
    fill(element, errorBox(error))
  }
  return element
}

function partsOf({ taskId, message, failure, result, log }) {
  return [
    h('p', { class: 'dim' }, 'Task ', h('code', {}, taskId)),
    failure ? failureParts(failure) : message && h('p', {}, message),
    result !== undefined && json('Result', result),
    log !== undefined && h('div', {},
      h('h4', {}, 'Log'),
      h('ol', { class: 'log' }, log.map(({ at, text }) => h('li', {}, time(at), ' ', text)))),
  ]
}

function failureParts({ attempt, error, input, context }) {
  return [
    h('h4', {}, `Error of attempt ${attempt}`),
    h('pre', { tabindex: 0 }, errorText(error)),
    input !== undefined && json('Input', input),
    context !== undefined && json('Context', context),
  ]
}

function errorText({ name, message, stack, cause }) {
  const own = stack ?? `${name}: ${message}`
  return cause === undefined ? own : `${own}\nCaused by ${cause.message === undefined ? JSON.stringify(cause) : errorText(cause)}`
}

function json(title, value) {
  return h('div', {}, h('h4', {}, title), h('pre', { tabindex: 0 }, JSON.stringify(value, null, 2)))
}
