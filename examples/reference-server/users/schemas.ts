import { jsonSchema } from 'longhaul'
import { USER_ROLES, type User, type UserChange, type UserDraft, type UserRole } from './user.js'

// PostgreSQL keeps no U+0000, and half a surrogate pair is no text.
const TEXT = '^[^\\u0000\\ud800-\\udfff]*$'

const id = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
const fields = {
  name: { type: 'string', maxLength: 200, pattern: TEXT },
  email: { type: 'string', minLength: 3, maxLength: 320, pattern: '^[^\\s@\\u0000\\ud800-\\udfff]+@[^\\s@\\u0000\\ud800-\\udfff]+$' },
  role: { enum: USER_ROLES },
}

/** A user as it is shown, as JSON Schema. */
export const userShape = { type: 'object', required: ['id', 'name', 'email', 'role'], properties: { id, ...fields } }

/** What makes or replaces a user. Other members are ignored, as everywhere here. */
export const userDraft = jsonSchema<UserDraft>({ type: 'object', required: ['email'], properties: fields })

/** Some fields of a user. */
export const userChange = jsonSchema<UserChange>({ type: 'object', properties: fields })

/** A new role for a user (SPEC 2.3). */
export interface UserRoleChange {
  readonly userId: number
  readonly role: UserRole
}

export const userRole = jsonSchema<UserRoleChange>({
  type: 'object', required: ['userId', 'role'], properties: { userId: id, role: fields.role },
})

/** A line of an upload: a change of the user with this id, or a new user. */
export const userRecord = jsonSchema<Partial<User>>({ type: 'object', properties: { id, ...fields } })
