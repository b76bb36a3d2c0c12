import { jsonSchema } from 'longhaul'
import { USER_ROLES, type User, type UserChange, type UserDraft, type UserRole } from './user.js'

// PostgreSQL keeps no U+0000, and half a surrogate pair is no text.
const TEXT = '^[^\\u0000\\ud800-\\udfff]*$'

const id = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
const fields = {
  name: { type: 'string', maxLength: 200, pattern: TEXT },
  email: { type: 'string', minLength: 3, maxLength: 320, pattern: '^[^\\s@\\u0000\\ud800-\\udfff]+@[^\\s@\\u0000\\ud800-\\udfff]+$' },
  // Which roles there are is a business rule, see RoleRule.
  role: { type: 'string', maxLength: 100, description: `One of ${USER_ROLES.join(', ')}` },
}
/** A member that is not known is refused, so that one which is misspelt is not dropped in silence. */
const closed = { type: 'object', additionalProperties: false } as const

/** A user as it is shown, as JSON Schema. */
export const userShape = { type: 'object', required: ['id', 'name', 'email', 'role'], properties: { id, ...fields, role: { enum: USER_ROLES } } }

/** What makes or replaces a user. */
export const userDraft = jsonSchema<UserDraft>({ ...closed, required: ['email'], properties: fields })

/** Some fields of a user. */
export const userChange = jsonSchema<UserChange>({ ...closed, properties: fields })

/** A new role for a user (SPEC 2.3). */
export interface UserRoleChange {
  readonly userId: number
  readonly role: UserRole
}

export const userRole = jsonSchema<UserRoleChange>({
  ...closed, required: ['userId', 'role'], properties: { userId: id, role: fields.role },
})

/** A line of an upload: a change of the user with this id, or a new user. */
export const userRecord = jsonSchema<Partial<User>>({ ...closed, properties: { id, ...fields } })
