const QVALUE = /^(?:0(?:\.[0-9]*)?|\.[0-9]+|1(?:\.0*)?)$/

/**
 * The weight among parameters (RFC 9110 section 12.4.2): 1 without a `q`, `undefined` when it is malformed.
 * More than three decimals and a missing leading zero are let pass.
 */
export function readWeight(params: ReadonlyMap<string, string>): number | undefined {
  const text = params.get('q')
  if (text === undefined) return 1
  return QVALUE.test(text) ? Number(text) : undefined
}
