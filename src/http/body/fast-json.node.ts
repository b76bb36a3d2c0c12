import type fastJson from 'fast-json-stringify'

/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

/** Replaces fast-json.ts in the builds for Node: loads the package, with ajv, at the first call. */
export function loadFastJson(): typeof fastJson {
  return nodeRequire('fast-json-stringify') as typeof fastJson
}
