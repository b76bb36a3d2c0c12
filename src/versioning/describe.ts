import type { Handler, Operation } from '../http/exchange.js'
import { addParameters, addResponseHeaders, addResponses, errorContent, errorResponses, fields, header, type Fragment } from '../openapi/index.js'
import type { Selector } from './selectors.js'

type Content = Readonly<Record<string, Fragment>>

const ADVERTISED = {
  'Api-Supported-Versions': header('Versions that are served'),
  'Api-Deprecated-Versions': header('Versions that are served still, and will go'),
}
const refusals = errorResponses('version_ambiguous', 'version_invalid', 'version_required', 'version_unsupported')
const unsupported = {
  description: '`version_unsupported`: This version is not served.', headers: fields('Cache-Control', 'Vary'), content: errorContent,
}

/** What `versions` adds to the operations of one version. */
export function describeVersion(
  name: string, handler: Handler<never>, deprecated: boolean, select: readonly Selector[], advertise: boolean,
): Operation[] {
  return ((handler as Handler).operations ?? []).map((operation) => {
    let told = operation
    for (const { unsupported: status, describe } of select) {
      if (status !== 400) told = addResponses(told, { [status]: unsupported })
      if (describe?.parameter !== undefined) told = addParameters(told, [describe.parameter])
      if (describe?.mediaType !== undefined) told = withMediaType(told, describe.mediaType(name))
    }
    told = addResponses(told, refusals)
    if (deprecated) told = deprecate(told)
    return advertise ? addResponseHeaders(told, ADVERTISED) : told
  })
}

/** What a deprecation adds to an operation. */
export function deprecate(operation: Operation): Operation {
  const told = addResponseHeaders(operation, fields('Deprecation', 'Sunset', 'Link'))
  return { ...told, openapi: { ...told.openapi, deprecated: true } }
}

/** Answers in JSON are sent as the vendor's type to those who ask for that. */
function withMediaType(operation: Operation, mediaType: string): Operation {
  const responses = operation.openapi['responses'] as Readonly<Record<string, Fragment>>
  return {
    ...operation,
    openapi: {
      ...operation.openapi,
      responses: Object.fromEntries(Object.entries(responses).map(([status, response]) => {
        const content = response['content'] as Content | undefined
        const json = content?.['application/json']
        return [status, json === undefined || Number(status) >= 400 ? response : { ...response, content: { ...content, [mediaType]: json } }]
      })),
    },
  }
}
