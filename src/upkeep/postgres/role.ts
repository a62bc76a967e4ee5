// The role of gateway and worker in the embedded server. It owns the tables and may not read files, run programs or
// make roles; the cluster's superuser cannot log in at all.
import { createHash } from 'node:crypto'
import { chownSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from './install.ts'
import { type Program, runSingleUser } from './server.ts'

/** The only role that may log in. */
export const ROLE = 'gateway'
export const DATABASE = 'postgres'

/** Every other login is refused by the server: no line matches. */
const ACCESS = `local all ${ROLE} scram-sha-256\n`

const VERSION = 1

const markerIn = (cluster: string): string => join(cluster, 'gatelog.role')

/** Says of which password the role is, without saying the password. */
const markerOf = (password: string): string =>
  `${VERSION} ${createHash('sha256').update(`gatelog role ${password}`).digest('hex')}\n`

/**
 * Makes the role, gives it the tables of an earlier version's superuser and closes every other way in. Does nothing
 * when this was done for this password. No server runs in the cluster: the statements reach it by a pipe.
 */
export const prepareRole = async (program: Program, password: string): Promise<void> => {
  const { cluster, account } = program
  writeOwn(join(cluster, 'pg_hba.conf'), ACCESS, account)
  const marker = markerOf(password)
  if (existsSync(markerIn(cluster)) && readFileSync(markerIn(cluster), 'utf8') === marker) return
  await runSingleUser(program, DATABASE, statements(password))
  if (!program.signal.aborted) writeOwn(markerIn(cluster), marker, account)
}

const writeOwn = (path: string, text: string, account: Account | null): void => {
  writeFileSync(path, text, { mode: 0o600 })
  if (account !== null) chownSync(path, account.uid, account.gid)
}

/** Each may be repeated: a start that was killed between two begins anew. */
const statements = (password: string): readonly string[] => {
  if (!/^[\w-]+$/.test(password)) throw new Error('the password of the embedded Postgres is damaged: remove its file')
  return [
    `do $$ begin
       if not exists (select from pg_roles where rolname = '${ROLE}') then create role ${ROLE}; end if;
     end $$`,
    `alter role ${ROLE} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password '${password}'`,
    'alter role current_user password null',
    `alter database ${DATABASE} owner to ${ROLE}`,
    OWNERSHIP,
  ]
}

/** Sequences of a column, indexes and partitions' toast follow their table. */
const OWNERSHIP = `do $$
declare
  owner oid := '${ROLE}'::regrole;
  one record;
begin
  for one in
    select oid, nspname from pg_namespace
    where nspname !~ '^pg_' and nspname not in ('information_schema', 'public') and nspowner <> owner
  loop
    execute format('alter schema %I owner to ${ROLE}', one.nspname);
  end loop;
  for one in
    select c.oid::regclass as name,
      case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end
        as kind
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relowner <> owner
      and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and not exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')
          and d.refclassid = 'pg_class'::regclass and c.relkind = 'S')
  loop
    execute format('alter %s %s owner to ${ROLE}', one.kind, one.name);
  end loop;
  for one in
    select p.oid::regprocedure as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and p.proowner <> owner
  loop
    execute format('alter routine %s owner to ${ROLE}', one.name);
  end loop;
  for one in
    select t.oid::regtype as name from pg_type t join pg_namespace n on n.oid = t.typnamespace
    where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and t.typowner <> owner
      and t.typtype in ('e', 'd', 'r')
  loop
    execute format('alter type %s owner to ${ROLE}', one.name);
  end loop;
end $$`
