/** The roles that a user may have. */
export const USER_ROLES = ['admin', 'editor', 'viewer'] as const

export type UserRole = (typeof USER_ROLES)[number]

/** The user record of SPEC 2.1. */
export interface User {
  readonly id: number
  readonly name: string
  /** No two users have the same one, in whatever case it is written. */
  readonly email: string
  readonly role: UserRole
}

/** What makes a user. Without a name it is `''`, without a role `viewer`. */
export interface UserDraft {
  readonly name?: string
  readonly email: string
  readonly role?: UserRole
}

export type UserChange = Partial<UserDraft>

/** What two users can't both have. */
export function emailKey(email: string): string {
  return email.toLowerCase()
}
