export const NDJSON_TYPE = 'application/x-ndjson'

/** All media types that are in use for NDJSON. None is registered. The first is the default. */
export const NDJSON_TYPES: readonly string[] = [
  NDJSON_TYPE, 'application/ndjson', 'application/jsonl', 'application/x-jsonl',
  'application/jsonlines', 'application/x-jsonlines', 'application/json-lines', 'text/x-ndjson',
]
