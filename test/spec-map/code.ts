/** Where the code of a clause is, by its id or the longest beginning of it that is here. Paths below the root. */
export const CODE: Readonly<Record<string, readonly string[]>> = {
  '1.1': ['src/resources/routes.ts', 'src/resources/methods.ts'],
  '1.2': ['src/bulk/handler.ts', 'src/ndjson/upload.ts', 'src/content/content.ts'],
  '1.3': ['src/tasks/http/submit.ts', 'src/tasks/core/accept-task.ts'],
  '1.4': ['src/ndjson/upload.ts', 'src/ndjson/download.ts'],
  '1.5': ['src/http/errors.ts', 'src/http/boundary.ts'],
  '2.1': ['examples/reference-server/users/schemas.ts'],
  '2.2': ['src/bulk/create.ts'],
  '2.3': ['src/bulk/update.ts'],
  '2.4': ['src/tasks/http/submit.ts', 'src/tasks/http/formats.ts'],
  '2.5': ['src/tasks/http/formats.ts', 'src/tasks/definition/json-values.ts', 'src/tasks/record/view.ts'],
  '2.6': ['src/tasks/http/formats.ts'],
  '2.7': ['examples/reference-server/callbacks.ts', 'src/callbacks/addresses.ts'],
  '2.8': ['examples/reference-server/select.ts'],
  '2.9': ['src/http/respond.ts', 'src/http/failure.ts'],
  '3': ['src/engine/task.ts', 'src/tasks/record/view.ts'],
  '4.1': ['src/resources/collection.ts', 'src/resources/items.ts'],
  '4.1.PATCH': ['src/resources/items.ts'],
  '4.1.HEAD': ['src/resources/routes.ts'],
  '4.1.OPTIONS': ['src/resources/routes.ts', 'src/resources/cors.ts'],
  '4.1.TRACE': ['examples/reference-server/trace.ts'],
  '4.1.CONNECT': ['examples/reference-server/tunnel.ts'],
  '4.2': ['src/resources/list.ts', 'src/resources/pages.ts'],
  '4.3': ['src/bulk/create.ts', 'src/bulk/judge.ts', 'src/records/report.ts'],
  '4.4': ['src/bulk/update.ts', 'src/bulk/write.ts', 'src/records/report.ts'],
  '4.5': ['src/content/content.ts', 'src/content/response.ts', 'src/http/headers/range.ts'],
  '4.6': ['src/tasks/http/submit.ts', 'src/tasks/http/accept.ts'],
  '4.6.5': ['src/tasks/http/direct.ts'],
  '4.6.poll': ['src/tasks/http/status.ts', 'src/tasks/http/formats.ts'],
  '4.7': ['src/tasks/http/submit.ts', 'src/tasks/http/formats.ts', 'examples/reference-server/routes.ts'],
  '4.8': ['src/callbacks/callbacks.ts', 'src/callbacks/message.ts', 'src/callbacks/http-sender.ts'],
  '4.9': ['src/ndjson/upload.ts', 'src/ndjson/download.ts'],
  '4.9.format': ['src/ndjson/line-reader.ts', 'src/ndjson/media-type.ts', 'src/ndjson/download.ts'],
  '4.9.upload': ['src/ndjson/line-reader.ts', 'src/http/body/decode.ts'],
  '5': ['src/policies/authenticate.ts', 'examples/reference-server/auth.ts'],
  '6.1': ['src/callbacks/callbacks.ts'],
  '6.2': ['src/tasks/http/status.ts'],
  '7': ['src/http/errors.ts', 'src/http/failure.ts', 'src/http/respond.ts'],
  '7.405': ['src/resources/routes.ts'],
  '7.429': ['src/policies/rate-limit.ts'],
  '7.501': ['src/resources/router.ts', 'adapters/node/attach.ts'],
  '7.502': ['src/http/errors.ts'],
  '7.504': ['src/http/errors.ts'],
  '7.4': ['src/records/report.ts'],
  '7.5': ['src/ndjson/line-reader.ts', 'src/ndjson/line-text.ts'],
  '7.6': ['src/tasks/run/failure.ts', 'src/tasks/record/view.ts'],
  '8.1': ['src/http/body/body.ts', 'src/policies/limits.ts'],
  '8.2': ['src/policies/rate-limit.ts'],
  '8.3': ['src/policies/timeouts.ts', 'src/tasks/run/run.ts'],
  '9': ['src/versions/versions.ts', 'src/versions/selectors.ts', 'src/versions/choose.ts'],
  '9.2': ['src/versions/deprecation.ts'],
  '9.3': ['src/versions/choose.ts'],
}

/** The files of a clause. */
export function codeOf(id: string): readonly string[] {
  for (let parts = id.split('.'); parts.length > 0; parts = parts.slice(0, -1)) {
    const files = CODE[parts.join('.')]
    if (files) return files
  }
  return []
}
