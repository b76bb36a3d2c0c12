/** A promise that is rejected with that, whatever it is. */
export async function rejected(error: unknown): Promise<never> {
  throw error
}
