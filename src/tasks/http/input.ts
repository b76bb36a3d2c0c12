import { readJsonBody } from '../../http/body/body.js'
import { httpError } from '../../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../../http/exchange.js'
import { acknowledged, jsonText, respondAllow } from '../../http/respond.js'
import { answerTask } from '../core/answer-task.js'
import { MAX_INPUTS_LENGTH } from '../definition/asks.js'
import { statusHeaders } from './formats.js'
import { inputOperations, withOwner } from './operations.js'
import { scopeOf, type EndpointSettings } from './settings.js'

/** Maximum size of a body, in bytes: a UTF-16 unit takes at most three. */
const MAX_BYTES = 3 * MAX_INPUTS_LENGTH

/** Creates the handler of POST `{status}/input`. It needs no key, because a repetition changes nothing. */
export function createInput<C>(settings: EndpointSettings<C>): Handler<C> {
  const { core, path, format } = settings
  const maxBodyBytes = Math.min(settings.maxBodyBytes, MAX_BYTES)
  const handler: Handler<C> = (request: HttpRequest<C>) => {
    const id = path.idBelow(request, '/input')
    if (id === undefined) return undefined
    if (request.method !== 'POST') return respondAllow(request, 'POST, OPTIONS')
    return acknowledged(request, async () => {
      const of = await scopeOf(settings, request)
      const { value: answers } = await readJsonBody(request, { maxBodyBytes })
      const task = await answerTask(core, id, of, answers)
      if (!task) throw httpError(format.notFound)
      const location = path.of(request.mountPath, id)
      const headers = { ...statusHeaders(task), 'content-location': location }
      return jsonText(200, format.toText(task, location), headers)
    })
  }
  return describe(handler, withOwner(settings, inputOperations(path, format)))
}
