import fastJson from 'fast-json-stringify'

/** Bundlers follow this import. Builds for Node replace this file with fast-json.node.ts. */
export function loadFastJson(): typeof fastJson {
  return fastJson
}
