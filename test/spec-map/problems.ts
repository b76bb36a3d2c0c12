import { type Clause } from './clauses.js'
import { type TaggedTest } from './read-tests.js'

/** What is wrong between the text of the specification, the list of clauses and the tests; empty when they agree. */
export function problems(
  specified: readonly string[],
  clauses: readonly Clause[],
  tests: readonly TaggedTest[],
): string[] {
  const ids = clauses.map((clause) => clause.id)
  const tested = new Set(tests.flatMap((test) => test.clauses))
  return [
    ...specified.filter((id) => !ids.includes(id)).map((id) => `docs/SPEC.md has ${id}, clauses.ts does not`),
    ...ids.filter((id) => !specified.includes(id)).map((id) => `clauses.ts has ${id}, docs/SPEC.md does not`),
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `clauses.ts has ${id} twice`),
    ...tests.flatMap((test) =>
      test.clauses.filter((id) => !ids.includes(id)).map((id) => `${test.file}: «SPEC ${id}» names no clause`),
    ),
    ...clauses
      .filter((clause) => clause.planned === undefined && !tested.has(clause.id))
      .map((clause) => `${clause.id} (${clause.about}) has no test`),
    ...clauses
      .filter((clause) => clause.planned !== undefined && tested.has(clause.id))
      .map((clause) => `${clause.id} has a test: take its «planned» out of clauses.ts`),
  ]
}
