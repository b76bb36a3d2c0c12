/** Whether `id` could be a task's id: what stands in paths and keys unescaped. */
export function isTaskId(id: string): boolean {
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}
