import type { Handler, Operation } from '../http/exchange.js'
import { addParameters, addResponseHeaders, addResponses } from '../openapi/merge.js'
import { errorContent, errorResponses } from '../openapi/errors.js'
import { fields } from '../openapi/fields.js'
import { header, type Fragment } from '../openapi/operation.js'
import type { Selector } from './selectors.js'

type Content = Readonly<Record<string, Fragment>>

const ADVERTISED = {
  'Api-Supported-Versions': header('Versions that are served'),
  'Api-Deprecated-Versions': header('Versions that are served still, and will go'),
}
const refusals = errorResponses(
  'version_ambiguous', 'version_invalid', 'version_required', 'version_unsupported',
)
const unsupported = {
  description: '`version_unsupported`: This version is not served.', headers: fields('Cache-Control', 'Vary'), content: errorContent,
}

/** One version, for its description. */
export interface DescribedVersion {
  readonly name: string
  readonly handler: Handler<never>
  readonly deprecated: boolean
  /** `true` if a request without a version gets this one. */
  readonly isDefault: boolean
}

/**
 * Additions of `versions` to the operations of one version. A version in the path is an operation
 * of its own, with the segment that chooses it. The path without a version is described as well if
 * a request without one is served, or if another way chooses there.
 */
export function describeVersion(
  { name, handler, deprecated, isDefault }: DescribedVersion,
  select: readonly Selector[],
  advertise: boolean,
): Operation[] {
  const segments = select.flatMap(({ describe }) => describe?.segment?.(name) ?? [])
  const others = select.filter(({ describe }) => describe?.segment === undefined)
  const finish = (operation: Operation, ways: readonly Selector[]): Operation => {
    const told = addResponses(chosenBy(operation, name, ways), refusals)
    const complete = deprecated ? deprecate(told) : told
    return advertise ? addResponseHeaders(complete, ADVERTISED) : complete
  }
  return ((handler as Handler).operations ?? []).flatMap((operation) => [
    ...segments.map((versionSegment) => {
      const { path } = operation
      const below = path === undefined
        ? {}
        : { path: `/${versionSegment}${path === '/' ? '' : path}` }
      // The query need not say again what the path says.
      return finish(
        { ...operation, ...below, versionSegment },
        others.filter(({ describe }) => describe?.parameter === undefined),
      )
    }),
    ...segments.length === 0 || others.length > 0 || isDefault ? [finish(operation, others)] : [],
  ])
}

function chosenBy(operation: Operation, name: string, ways: readonly Selector[]): Operation {
  let told = operation
  for (const { unsupported: status, describe } of ways) {
    if (status !== 400) told = addResponses(told, { [status]: unsupported })
    if (describe?.parameter !== undefined) told = addParameters(told, [describe.parameter])
    if (describe?.mediaType !== undefined) told = withMediaType(told, describe.mediaType(name))
  }
  return told
}

/** Adds a deprecation to an operation. */
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
