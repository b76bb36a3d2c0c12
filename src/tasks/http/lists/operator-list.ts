import {
  compose, describe, type Handler, type HttpRequest, type HttpResponse, type Policy,
} from '../../../http/exchange.js'
import { checkNames } from '../../../runtime/option-names.js'
import type { EndpointSettings } from '../endpoint-settings.js'
import { TASK_STATUSES } from '../formats.js'
import { listOperations } from './operations.js'
import { mustTakeJson, respondPage } from './page.js'
import { readListQuery, type QueryRules } from './query.js'

/** Options of `operatorList`. */
export interface OperatorListOptions<C = unknown> {
  /**
   * Policies that refuse everybody but operators, such as `authorize({ allow, reason })`. They run first.
   * Required, because the list shows the tasks of all owners.
   */
  readonly authorize: Policy<C> | readonly Policy<C>[]
  /**
   * Further query parameters that a request may have, such as one that a policy in front reads.
   * Default: none.
   */
  readonly also?: readonly string[]
}

const KNOWN = { authorize: 0, also: 0 } satisfies Record<keyof OperatorListOptions, 0>

/** Creates the handler of the list of all owners' tasks. See `TaskEndpoints.operatorList`. */
export function createOperatorList<C>(
  settings: EndpointSettings<C>, options: OperatorListOptions<C>,
): Handler<C> {
  const where = 'operatorList'
  checkNames(where, options, KNOWN)
  const { authorize, also = [] } = options
  const { service, format } = settings
  const rules: QueryRules = {
    statuses: format.statuses ?? TASK_STATUSES, also: new Set(also), byOwner: true,
    hasTask: (name) => service.definition(name) !== undefined,
  }
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => {
    const { method } = request
    return method === 'GET' || method === 'HEAD' ? answer(settings, request, rules) : undefined
  }
  return compose(...policiesOf(where, authorize), describe(handler, listOperations(format, rules)))
}

/**
 * Returns the policies that let only operators pass.
 *
 * @throws {TypeError} There is none.
 */
export function policiesOf<C>(
  where: string, authorize: Policy<C> | readonly Policy<C>[],
): readonly Policy<C>[] {
  const policies = [authorize].flat<(Policy<C> | readonly Policy<C>[])[]>()
  if (policies.length > 0 && policies.every((policy) => typeof policy === 'function')) {
    return policies
  }
  throw new TypeError(`${where}: the option authorize is missing. It shows the tasks of all owners, ` +
    'so pass the policies that refuse everybody but operators: authorize: authorize({ allow, reason })')
}

async function answer<C>(
  { service, format, path }: EndpointSettings<C>, request: HttpRequest<C>, rules: QueryRules,
): Promise<HttpResponse> {
  mustTakeJson(request)
  const { filter: asked, owner, cursor } = readListQuery(request, rules)
  const filter = { ...asked, of: owner === undefined ? 'all' as const : { owner } }
  const page = await service.list(filter, cursor)
  const { mountPath } = request
  return respondPage(request, page, (task) => {
    const body = JSON.parse(format.toText(task, path.of(mountPath, task.id))) as object
    return JSON.stringify({ ...task.owner !== undefined && { owner: task.owner }, ...body })
  })
}
