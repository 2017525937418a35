/**
 * `node:sqlite`: databases over the `sqlite` hostcall, which is synchronous like the API.
 *
 * The host holds the database; each call passes the SQL and its values. The host's SQLite cannot call functions, aggregates and
 * extensions written in JavaScript, which throw; sessions and backups are not supported.
 */

import { HostcallError, attach, bytesOf, callSync } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { coded, invalidArgType, notSupported } from "pi:node/errors";
import { absent } from "pi:node/refuse";
import { pathOf } from "pi:node/fs/requests";

export const constants = Object.freeze({
  SQLITE_CHANGESET_OMIT: 0, SQLITE_CHANGESET_REPLACE: 1, SQLITE_CHANGESET_ABORT: 2, SQLITE_CHANGESET_DATA: 1, SQLITE_CHANGESET_NOTFOUND: 2,
  SQLITE_CHANGESET_CONFLICT: 3, SQLITE_CHANGESET_CONSTRAINT: 4, SQLITE_CHANGESET_FOREIGN_KEY: 5,
});

/** SQLite's messages for its result codes (`sqlite3_errstr`). */
const WORDS: Record<number, string> = {
  1: "SQL logic error", 3: "access permission denied", 4: "query aborted", 5: "database is locked", 6: "database table is locked", 7: "out of memory",
  8: "attempt to write a readonly database", 9: "interrupted", 10: "disk I/O error", 11: "database disk image is malformed", 13: "database or disk is full",
  14: "unable to open database file", 17: "database schema has changed", 18: "string or blob too big", 19: "constraint failed", 20: "datatype mismatch",
  21: "bad parameter or other API misuse", 23: "authorization denied", 25: "column index out of range", 26: "file is not a database",
};

/** One row of an answer, and one value of a call. */
type Row = any[];

function request(op: Params<"sqlite">["op"], params: Record<string, unknown>, bytes: Uint8Array[] = []): Answer {
  try {
    // The gate decides when the file is opened; later calls use the open database.
    const capability = op === "open" && params.path !== ":memory:" && !params.readOnly ? "write" : "read";
    return callSync("sqlite", capability, { op, ...params } as Params<"sqlite">, bytes);
  } catch (failure) {
    throw sqlError(failure);
  }
}

function sqlError(failure: unknown): unknown {
  if (!(failure instanceof HostcallError)) return failure;
  const { sqlite, reason } = failure.details;
  if (reason === "parameter") return coded(Error, "ERR_INVALID_STATE", failure.message);
  const isTooMuch = reason === "EFBIG" || reason === "quota";
  const errcode = typeof sqlite === "number" ? sqlite : isTooMuch ? 18 : failure.code === "timeout" ? 9 : 14;
  // SQLite has no message for the host's limits, so the host provides it.
  const message = typeof sqlite === "number" || isTooMuch ? failure.message : WORDS[errcode];
  const error = coded(Error, "ERR_SQLITE_ERROR", message);
  Object.assign(error, { errcode, errstr: WORDS[errcode & 0xff] ?? "unknown error" });
  Object.defineProperty(error, "cause", { value: failure, writable: true, configurable: true });
  return error;
}

const LARGEST = 2n ** 63n - 1n;

function outgoing(value: unknown, name: string, bytes: Uint8Array[]): unknown {
  if (value === null) return value;
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value === "number") return Number.isInteger(value) && Math.abs(value) <= 2 ** 53 ? value : Number.isFinite(value) ? value : null;
  if (typeof value === "bigint") {
    if (value > LARGEST || value < -LARGEST - 1n) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "BigInt value is too large to bind");
    return { $int: String(value) };
  }
  if (ArrayBuffer.isView(value)) return attach(bytes, new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `Provided value cannot be bound to SQLite parameter ${name}.`);
}

function incoming(value: any, answer: Answer, bigInts: boolean): unknown {
  if (typeof value === "number") return bigInts ? BigInt(value) : value;
  if (value === null || typeof value === "string") return value;
  if ("$real" in value) return value.$real;
  if ("$int" in value) {
    if (bigInts) return BigInt(value.$int);
    throw coded(RangeError, "ERR_OUT_OF_RANGE", `Value is too large to be represented as a JavaScript number: ${value.$int}`);
  }
  return bytesOf(answer, value);
}

interface OpenOptions {
  open?: boolean;
  readOnly?: boolean;
  enableForeignKeyConstraints?: boolean;
  enableDoubleQuotedStringLiterals?: boolean;
  allowExtension?: boolean;
  timeout?: number;
  readBigInts?: boolean;
  returnArrays?: boolean;
}

const HANDLE = Symbol("database");

export class DatabaseSync {
  #path: string;
  #options: OpenOptions;
  #number: number | undefined;

  constructor(path: unknown, options: OpenOptions = {}) {
    if (typeof path !== "string" && !(path instanceof Uint8Array) && typeof (path as any)?.href !== "string") {
      throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "path" argument must be a string, Uint8Array, or URL without null bytes.');
    }
    this.#path = pathOf(path);
    if (options === null || typeof options !== "object") throw invalidArgType("options", "an object", options);
    for (const name of ["open", "readOnly", "enableForeignKeyConstraints"] as const) {
      if (options[name] !== undefined && typeof options[name] !== "boolean") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "options.${name}" argument must be a boolean.`);
    }
    if (options.allowExtension) throw notSupported("sqlite option allowExtension", "extensions are native code");
    this.#options = options;
    if (options.open !== false) this.open();
  }

  get isOpen(): boolean {
    return this.#number !== undefined;
  }
  get isTransaction(): boolean {
    return this.#inTransaction;
  }
  #inTransaction = false;

  [HANDLE](): number {
    if (this.#number === undefined) throw coded(Error, "ERR_INVALID_STATE", "database is not open");
    return this.#number;
  }
  get _options(): OpenOptions {
    return this.#options;
  }

  open(): void {
    if (this.#number !== undefined) throw coded(Error, "ERR_INVALID_STATE", "database is already open");
    const { readOnly, timeout, enableForeignKeyConstraints } = this.#options;
    const params = { path: this.#path, ...(readOnly && { readOnly }), ...(timeout && { timeout }), ...(enableForeignKeyConstraints === false && { noForeignKeys: true }) };
    this.#number = request("open", params).output.db;
  }
  close(): void {
    request("close", { db: this[HANDLE]() });
    this.#number = undefined;
  }
  [Symbol.dispose ?? Symbol.for("dispose")](): void {
    if (this.isOpen) this.close();
  }
  exec(sql: string): void {
    const db = this[HANDLE]();
    if (typeof sql !== "string") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "sql" argument must be a string.');
    this._follow(sql);
    request("exec", { db, sql: sql.toWellFormed() });
  }
  prepare(sql: string): StatementSync {
    const db = this[HANDLE]();
    if (typeof sql !== "string") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "sql" argument must be a string.');
    return new StatementSync(this, sql, request("prepare", { db, sql: sql.toWellFormed() }).output);
  }
  /** Tracks, by the executed statements, whether a transaction is open. */
  _follow(sql: string): void {
    for (const [word] of sql.matchAll(/^\s*(?:begin|commit|end|rollback)\b(?!\s+to\b)/gim)) this.#inTransaction = /begin/i.test(word);
  }
  location(): string | null {
    return this.#path === ":memory:" ? null : this.#path;
  }
  function(): never {
    throw notSupported("sqlite database.function", "compute in JavaScript on the rows");
  }
  aggregate(): never {
    throw notSupported("sqlite database.aggregate", "compute in JavaScript on the rows");
  }
  createSession(): never {
    throw notSupported("sqlite database.createSession", "write changes to a table of your own");
  }
  applyChangeset(): never {
    throw notSupported("sqlite database.applyChangeset", "write changes to a table of your own");
  }
  enableLoadExtension(): never {
    throw notSupported("sqlite database.enableLoadExtension", "extensions are native code");
  }
  loadExtension(): never {
    throw notSupported("sqlite database.loadExtension", "extensions are native code");
  }
}

interface Shape {
  columns: { name: string; type: string | null }[];
  parameters: (string | null)[];
}

export class StatementSync {
  #database: DatabaseSync;
  #sql: string;
  #shape: Shape;
  #bigInts: boolean;
  #arrays: boolean;
  #bare = true;
  #unknown = false;

  /** Creates a statement; only `database.prepare` calls this. */
  constructor(database?: DatabaseSync, sql?: string, shape?: Shape) {
    if (!(database instanceof DatabaseSync)) throw coded(Error, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor");
    this.#database = database;
    this.#sql = sql!;
    this.#shape = shape!;
    this.#bigInts = Boolean(database._options.readBigInts);
    this.#arrays = Boolean(database._options.returnArrays);
  }

  get sourceSQL(): string {
    return this.#sql;
  }
  get expandedSQL(): string {
    return request("prepare", { db: this.#database[HANDLE](), sql: this.#sql }).output.expanded ?? this.#sql;
  }
  columns(): { column: string; database: null; name: string; table: null; type: string | null }[] {
    return this.#shape.columns.map(({ name, type }) => ({ column: name, database: null, name, table: null, type }));
  }
  setReadBigInts(enabled: boolean): void {
    this.#bigInts = Boolean(enabled);
  }
  setReturnArrays(enabled: boolean): void {
    this.#arrays = Boolean(enabled);
  }
  setAllowBareNamedParameters(enabled: boolean): void {
    this.#bare = Boolean(enabled);
  }
  setAllowUnknownNamedParameters(enabled: boolean): void {
    this.#unknown = Boolean(enabled);
  }

  run(...values: any[]): { changes: number | bigint; lastInsertRowid: number | bigint } {
    this.#database._follow(this.#sql);
    const answer = this.#ask("run", values);
    const { changes, lastInsertRowid } = answer.output;
    return { lastInsertRowid: incoming(lastInsertRowid, answer, this.#bigInts) as number, changes: incoming(changes, answer, this.#bigInts) as number };
  }
  get(...values: any[]): any {
    const answer = this.#ask("get", values);
    const row = answer.output.rows[0];
    return row === undefined ? undefined : this.#row(row, answer);
  }
  all(...values: any[]): any[] {
    const answer = this.#ask("all", values);
    return answer.output.rows.map((row: Row) => this.#row(row, answer));
  }
  *iterate(...values: any[]): IterableIterator<any> {
    const answer = this.#ask("all", values);
    for (const row of answer.output.rows) yield this.#row(row, answer);
  }

  #row(row: Row, answer: Answer): any {
    const cells = row.map((cell) => incoming(cell, answer, this.#bigInts));
    if (this.#arrays) return cells;
    const object = Object.create(null);
    for (const [at, { name }] of this.#shape.columns.entries()) object[name] = cells[at];
    return object;
  }

  #ask(op: "all" | "get" | "run", given: any[]): Answer {
    const db = this.#database[HANDLE]();
    const bytes: Uint8Array[] = [];
    const params: Record<string, unknown> = { db, sql: this.#sql };
    let values = given;
    const first = given[0];
    if (first !== null && typeof first === "object" && !ArrayBuffer.isView(first)) {
      params.named = this.#named(first, bytes);
      values = given.slice(1);
      // Values after the named parameters bind the unnamed ones.
      const free = this.#shape.parameters.flatMap((name, at) => (name === null || /^\?/.test(name) ? [at + 1] : []));
      if (values.length > 0) {
        const all: unknown[] = [];
        for (const [at, value] of values.entries()) all[(free[at] ?? at + 1) - 1] = outgoing(value, String(at + 1), bytes);
        params.values = Array.from(all, (value) => value ?? null);
      }
    } else params.values = values.map((value, at) => outgoing(value, String(at + 1), bytes));
    if (values.length > this.#shape.parameters.length) {
      throw Object.assign(coded(Error, "ERR_SQLITE_ERROR", "column index out of range"), { errcode: 25, errstr: "column index out of range" });
    }
    return request(op, params, bytes);
  }

  /** Returns the names with their prefix, which SQLite requires. A bare name matches the name with a prefix. */
  #named(values: Record<string, unknown>, bytes: Uint8Array[]): Record<string, unknown> {
    const named: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(values)) {
      let full: string | undefined = this.#shape.parameters.includes(name) ? name : undefined;
      if (full === undefined && this.#bare) full = this.#shape.parameters.find((known) => known !== null && known.slice(1) === name) ?? undefined;
      if (full === undefined) {
        if (this.#unknown) continue;
        throw coded(Error, "ERR_INVALID_STATE", `Unknown named parameter '${name}'`);
      }
      named[full] = outgoing(value, name, bytes);
    }
    return named;
  }
}

export const backup = absent("sqlite.backup", "use VACUUM and copy the file");

export default { DatabaseSync, StatementSync, backup, constants };
