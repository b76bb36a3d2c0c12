/**
 * Returns advice for the error of a runtime that forbids code generation, such as a Worker after
 * its module is loaded. Returns `undefined` for any other error.
 */
export function codeGenerationAdvice(error: unknown): string | undefined {
  if (!(error instanceof EvalError)) return undefined
  return 'this runtime forbids code generation here. '
    + 'A Worker allows it while its module is loaded: make the call there'
}
