/** One change of the tables. A published migration is never edited; a later one corrects it. */
export interface Migration {
  /** Number of its row in the table of applied migrations. */
  readonly number: number
  readonly name: string
  /**
   * Returns the statements. They only add, so that processes of the version before keep working
   * beside them during a rolling deploy.
   *
   * @param schema - the schema, quoted as an identifier
   */
  readonly statements: (schema: string) => readonly string[]
}
