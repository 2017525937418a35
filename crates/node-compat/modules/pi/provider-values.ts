/**
 * `pi:pi/provider-values`: keys and headers in the configuration of a provider: literal text, text with variables, or a command.
 * A variable is read through the `env` hostcall and a command runs through `exec`, so both need the usual permissions.
 */

import { facts } from "pi:engine";
import { call, callSync } from "pi:hostcall";
import { hasTemplates } from "pi:pi/profile";

type Config = Record<string, any>;

/** A part of a configured text: literal, or a variable. */
type Piece = { text: string } | { variable: string };

/** Parses `$NAME` and `${NAME}`; `$$` and `$!` stand for one character. pi 0.73 took the name of a variable, or a literal. */
function piecesOf(text: string): Piece[] {
  if (!hasTemplates) return /^[A-Z][A-Z0-9]*_[A-Z0-9_]+$/.test(text) ? [{ variable: text }] : [{ text }];
  const pieces: Piece[] = [];
  const pattern = /\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))/g;
  let from = 0;
  for (const { 0: whole, 1: literal, 2: braced, 3: bare, index } of text.matchAll(pattern)) {
    pieces.push({ text: text.slice(from, index) + (literal ?? "") });
    const variable = braced ?? bare;
    if (variable !== undefined) pieces.push({ variable });
    from = index + whole.length;
  }
  return [...pieces, { text: text.slice(from) }];
}

export const isCommand = (text: string): boolean => text.startsWith("!");
export const variablesOf = (text: string): string[] => [
  ...new Set(piecesOf(text).flatMap((piece) => ("variable" in piece ? [piece.variable] : []))),
];

/** Returns whether a configuration's key is available, as far as that can be known without running a command. */
export function isConfigured(config: Config): boolean {
  const key = config.apiKey;
  if (typeof key !== "string" || key === "") return false;
  const names = isCommand(key) || !hasTemplates ? [] : variablesOf(key);
  if (names.length === 0) return true;
  try {
    const { values } = callSync("env", "env", { op: "get", names }).output;
    return names.every((name) => Boolean(values?.[name]));
  } catch {
    // A refused read makes the key unavailable.
    return false;
  }
}

/** Returns pi's `AuthStatus` of a provider with its own key. */
export function statusOf(config: Config): object | undefined {
  const { apiKey } = config;
  if (typeof apiKey !== "string") return undefined;
  if (isCommand(apiKey)) return { configured: true, source: "models_json_command" };
  const names = hasTemplates ? variablesOf(apiKey) : [];
  if (names.length === 0) return { configured: true, source: "fallback" };
  return isConfigured(config) ? { configured: true, source: "environment", label: names.join(", ") } : { configured: false };
}

/** Resolves a configured text; undefined if one of its variables is unset, or a command printed nothing. */
export async function valueOf(text: string): Promise<string | undefined> {
  if (isCommand(text)) {
    const answer = await call("exec", "exec", { command: "sh", args: ["-c", text.slice(1)], cwd: facts.cwd });
    return String(answer.output.stdout ?? "").trim() || undefined;
  }
  const names = variablesOf(text);
  if (names.length === 0) return piecesOf(text).map((piece) => ("text" in piece ? piece.text : "")).join("");
  const { values } = (await call("env", "env", { op: "get", names })).output;
  if (!hasTemplates) return values?.[names[0]!] ?? text;
  if (!names.every((name) => values?.[name])) return undefined;
  return piecesOf(text).map((piece) => ("text" in piece ? piece.text : values[piece.variable])).join("");
}
