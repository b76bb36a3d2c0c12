// The users that all measured servers validate and write.

export interface Draft { readonly name: string; readonly email: string; readonly role: string }
export interface User extends Draft { readonly id: string }
export interface Refusal { readonly pointer: string; readonly message: string }
export interface ReportItem { readonly index: number; readonly status: number; readonly id?: string; readonly error?: { code: string; message: string; details: readonly Refusal[] } }

const ROLES = ['admin', 'editor', 'viewer']

/** JSON of one user. */
export function userText(index: number): string {
  return `{"name":"User ${index}","email":"user${index}@example.com","role":"${ROLES[index % 3] as string}"}`
}

export function usersText(count: number): string {
  return `[${Array.from({ length: count }, (_, index) => userText(index)).join(',')}]`
}

export const USER_SCHEMA = {
  type: 'object', required: ['name', 'email', 'role'], additionalProperties: false,
  properties: {
    name: { type: 'string', minLength: 1 },
    email: { type: 'string', pattern: '^[^@ ]+@[^@ ]+$' },
    role: { type: 'string', enum: ROLES },
  },
}

export const EMAIL = /^[^@ ]+@[^@ ]+$/

let ids = 0

/** Stands for the database. */
export function insertAll(drafts: readonly Draft[]): User[] {
  return drafts.map(({ name, email, role }) => ({ id: String(++ids), name, email, role }))
}

/** Checks that are written by hand for this shape. */
export function handChecked(item: unknown): Draft | undefined {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return undefined
  const { name, email, role } = item as Record<string, unknown>
  if (typeof name !== 'string' || name === '') return undefined
  if (typeof email !== 'string' || !EMAIL.test(email)) return undefined
  if (typeof role !== 'string' || !ROLES.includes(role)) return undefined
  for (const key in item) if (key !== 'name' && key !== 'email' && key !== 'role') return undefined
  return item as Draft
}

/** A valid item, or the reason why it is invalid. */
export type Check = (item: unknown) => Draft | readonly Refusal[]

/** A bulk create by hand around a validator. Validates each item, writes the valid ones and reports all. */
export function bulkByHand(body: unknown, check: Check, onlyFailed: boolean): { status: number; report: object } {
  if (!Array.isArray(body)) return { status: 400, report: { error: 'The body must be an array.', code: 'invalid_input' } }
  const items: ReportItem[] = []
  const good: Draft[] = []
  const places: number[] = []
  let failed = 0
  body.forEach((item: unknown, index) => {
    const checked = check(item)
    if ('name' in checked) {
      good.push(checked)
      places.push(index)
    } else {
      failed++
      items[index] = { index, status: 400, error: { code: 'invalid_input', message: 'The item is not valid.', details: checked } }
    }
  })
  insertAll(good).forEach(({ id }, at) => {
    const index = places[at] as number
    items[index] = { index, status: 201, id }
  })
  const shown = onlyFailed ? items.filter(({ status }) => status !== 201) : items
  return { status: failed === 0 ? 201 : 207, report: { summary: { total: body.length, succeeded: body.length - failed, failed }, items: shown } }
}
