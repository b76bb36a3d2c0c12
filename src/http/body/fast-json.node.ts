import type fastJson from 'fast-json-stringify'

/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

export function loadFastJson(): typeof fastJson {
  return nodeRequire('fast-json-stringify') as typeof fastJson
}
