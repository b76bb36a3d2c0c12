/** What the store needs of a PostgreSQL, wherever it is. */
export interface Database {
  /** True if other processes use it too. */
  readonly shared: boolean
  /** Values stand for $1, $2, … */
  query<T>(text: string, values: readonly unknown[]): Promise<T[]>
  /** Hears of every key that was changed; `undefined` after a time in which notices may have been lost. */
  listen(tell: (key: string | undefined) => void): Promise<() => Promise<void>>
}

export const CHANNEL = 'longhaul'

/**
 * Revisions come from one sequence for all keys, so that none comes twice, also when its key was deleted. May run again and again, and in several
 * processes that start together: "if not exists" alone would let two of them make one table.
 */
export const SCHEMA = `DO $schema$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('longhaul'));
  CREATE SEQUENCE IF NOT EXISTS longhaul_revisions;
  CREATE TABLE IF NOT EXISTS longhaul_entries (
    key text COLLATE "C" PRIMARY KEY, value text NOT NULL, expires_at float8 NOT NULL,
    revision bigint NOT NULL DEFAULT nextval('longhaul_revisions'));
  CREATE INDEX IF NOT EXISTS longhaul_entries_expiry ON longhaul_entries (expires_at);
  CREATE TABLE IF NOT EXISTS longhaul_counters (
    key text COLLATE "C" PRIMARY KEY, expires_at float8 NOT NULL,
    value bigint NOT NULL CHECK (value BETWEEN -9007199254740991 AND 9007199254740991));
  CREATE OR REPLACE FUNCTION longhaul_tell() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_notify('${CHANNEL}', coalesce(NEW.key, OLD.key)); RETURN NULL; END $$;
  CREATE OR REPLACE TRIGGER longhaul_changed AFTER INSERT OR UPDATE OR DELETE ON longhaul_entries
    FOR EACH ROW EXECUTE FUNCTION longhaul_tell();
END $schema$`
