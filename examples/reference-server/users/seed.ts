import type { User } from './user.js'

const FIRST = [
  'Ada', 'Alan', 'Annie', 'Barbara', 'Claude', 'Dorothy', 'Edsger', 'Evelyn', 'Frances', 'Grace', 'Hedy', 'Ida',
  'Jean', 'John', 'Karen', 'Katherine', 'Kathleen', 'Ken', 'Lynn', 'Margaret', 'Mary', 'Radia', 'Shafi', 'Tim',
]
const LAST = [
  'Allen', 'Berners', 'Booth', 'Boyd', 'Clarke', 'Conway', 'Cray', 'Curie', 'Dijkstra', 'Easley', 'Engel', 'Estrin', 'Floyd',
  'Gauss', 'Goldberg', 'Granville', 'Hamilton', 'Hoare', 'Holberton', 'Hopper', 'Jackson', 'Johnson', 'Keller', 'Knuth', 'Lamarr',
  'Liskov', 'Lovelace', 'McCarthy', 'Mealing', 'Milner', 'Minsky', 'Naur', 'Noether', 'Patel', 'Perlis', 'Perlman', 'Randell',
  'Rhodes', 'Ritchie', 'Sammet', 'Shaw', 'Sutton', 'Tardos', 'Thompson', 'Turing', 'Vaughan', 'Wilkes', 'Wing', 'Wirth', 'Zuse',
]

/** The initial 1,200 users, the same at each start. Nine of ten are viewers or editors. */
export function seededUsers(): User[] {
  return Array.from({ length: FIRST.length * LAST.length }, (_, at) => {
    const first = FIRST[at % FIRST.length] ?? ''
    const last = LAST[Math.floor(at / FIRST.length)] ?? ''
    const role = at % 10 === 0 ? 'admin' : at % 3 === 0 ? 'editor' : 'viewer'
    return { id: at + 1, name: `${first} ${last}`, email: `${first}.${last}@example.com`.toLowerCase(), role }
  })
}
