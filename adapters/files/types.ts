const TEXT = '; charset=utf-8'

const TYPES: Readonly<Record<string, string>> = {
  txt: `text/plain${TEXT}`, log: `text/plain${TEXT}`, md: `text/markdown${TEXT}`, csv: `text/csv${TEXT}`, tsv: `text/tab-separated-values${TEXT}`,
  html: `text/html${TEXT}`, htm: `text/html${TEXT}`, css: `text/css${TEXT}`, js: `text/javascript${TEXT}`, mjs: `text/javascript${TEXT}`,
  json: 'application/json', jsonl: 'application/x-ndjson', ndjson: 'application/x-ndjson', geojson: 'application/geo+json', map: 'application/json',
  xml: 'application/xml', yaml: 'application/yaml', yml: 'application/yaml', toml: 'application/toml', sql: 'application/sql',
  pdf: 'application/pdf', rtf: 'application/rtf', epub: 'application/epub+zip', wasm: 'application/wasm', webmanifest: 'application/manifest+json',
  zip: 'application/zip', gz: 'application/gzip', tgz: 'application/gzip', bz2: 'application/x-bzip2', xz: 'application/x-xz', zst: 'application/zstd',
  tar: 'application/x-tar', '7z': 'application/x-7z-compressed', parquet: 'application/vnd.apache.parquet', sqlite: 'application/vnd.sqlite3',
  png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', avif: 'image/avif', svg: 'image/svg+xml',
  ico: 'image/vnd.microsoft.icon', bmp: 'image/bmp', tif: 'image/tiff', tiff: 'image/tiff', heic: 'image/heic',
  mp3: 'audio/mpeg', m4a: 'audio/mp4', ogg: 'audio/ogg', opus: 'audio/ogg', flac: 'audio/flac', wav: 'audio/wav', aac: 'audio/aac',
  mp4: 'video/mp4', m4v: 'video/mp4', webm: 'video/webm', mov: 'video/quicktime', mkv: 'video/matroska', avi: 'video/x-msvideo', ts: 'video/mp2t',
  woff: 'font/woff', woff2: 'font/woff2', ttf: 'font/ttf', otf: 'font/otf',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
}

/**
 * Returns the media type of a file name by its extension, first from `own`. Default:
 * `application/octet-stream`.
 */
export function typeOfName(name: string, own: Readonly<Record<string, string>> = {}): string {
  const dot = name.lastIndexOf('.')
  const extension = dot < 0 ? '' : name.slice(dot + 1).toLowerCase()
  if (Object.hasOwn(own, extension)) return own[extension] as string
  return Object.hasOwn(TYPES, extension) ? TYPES[extension] as string : 'application/octet-stream'
}
