/**
 * `pi:pi/entry`: one run of the factory of an extension entry, for a session or until a reload.
 *
 * Registrations made while the factory runs are kept and sent with `ready`; when the factory fails
 * they are dropped. Later registrations are sent at once.
 */

import { send } from "pi:engine";
import { currency } from "pi:pi/stale";

export type Registration = { kind: string; [member: string]: unknown };

/** Maximum nesting of a registration. The host accepts 120 levels in a message, of which a registration uses some. */
const DEEPEST = 110;

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === "object" && value !== null && (levels === 0 || Object.values(value).some((part) => isDeeper(part, levels - 1)));

export class Entry {
  readonly index: number;
  /** The path that errors name. */
  path = "";
  state: "loading" | "active" | "failed" = "loading";
  /** Flags that this entry registered, with their defaults. */
  readonly flags = new Map<string, boolean | string | undefined>();
  readonly #assertCurrent = currency();
  #pending: Registration[] = [];
  #undo: (() => void)[] = [];

  constructor(index: number) {
    this.index = index;
  }

  /** Throws if the entry failed to load, or if another run has replaced this one. */
  assertUsable(): void {
    this.#assertCurrent();
    if (this.state === "failed") {
      throw new Error(`Extension "${this.path}" failed to load and its API is no longer active.`);
    }
  }

  /** Throws while the factory runs, because actions need a session. */
  assertReady(): void {
    this.assertUsable();
    if (this.state === "loading") {
      throw new Error(
        "Extension runtime not initialized. Action methods cannot be called during extension loading.",
      );
    }
  }

  register(registration: Registration): void {
    if (isDeeper(registration, DEEPEST)) {
      const what = [registration.kind, registration.name].filter((part) => typeof part === "string").join(" ");
      throw new RangeError(`what is registered (${what}) is nested more than ${DEEPEST} levels deep`);
    }
    if (this.state === "loading") this.#pending.push(registration);
    else send({ type: "register", payload: { entry: this.index, ready: false, registrations: [registration] } });
  }

  /** Adds a function that undoes an action if the factory fails. */
  onFailure(undo: () => void): void {
    if (this.state === "loading") this.#undo.push(undo);
  }

  ready(): void {
    this.state = "active";
    this.#undo = [];
    send({ type: "register", payload: { entry: this.index, ready: true, registrations: this.#pending } });
    this.#pending = [];
  }

  fail(): void {
    this.state = "failed";
    for (const undo of this.#undo) undo();
    this.#undo = [];
    this.#pending = [];
  }
}
