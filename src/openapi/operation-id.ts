import type { Operation } from '../http/exchange.js'

/**
 * An id for each operation: its own, else made of its method and path, as `getApiStatusId`. Ids
 * have to be unique in a document, so one that is taken gets a number.
 */
export function operationIds(operations: readonly Operation[]): Map<Operation, string> {
  const taken = new Set<string>()
  return new Map(operations.map((operation) => {
    const wanted = typeof operation.openapi['operationId'] === 'string'
      ? operation.openapi['operationId']
      : made(operation)
    let id = wanted
    for (let number = 2; taken.has(id); number++) id = `${wanted}${number}`
    taken.add(id)
    return [operation, id]
  }))
}

function made({ method, path = '' }: Operation): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}
