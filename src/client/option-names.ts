/**
 * Refuses each name of `options`, inherited ones included, that is not a member of `known`.
 * @throws {TypeError} An unknown name. The message lists the names that exist.
 */
export function checkNames(
  where: string, options: object, known: Readonly<Record<string, 0>>,
): void {
  for (const name in options) {
    if (Object.hasOwn(known, name)) continue
    const names = Object.keys(known).join(', ')
    throw new TypeError(`${where}: there is no option "${name}". The options are ${names}.`)
  }
}
