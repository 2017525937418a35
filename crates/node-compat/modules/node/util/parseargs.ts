/** `pi:node/util/parseargs`: `util.parseArgs`. */

import { coded, invalidArgType } from "pi:node/errors";

interface OptionConfig {
  type: "string" | "boolean";
  short?: string;
  multiple?: boolean;
  default?: unknown;
}

interface Config {
  args?: string[];
  options?: Record<string, OptionConfig>;
  strict?: boolean;
  allowPositionals?: boolean;
  allowNegative?: boolean;
  tokens?: boolean;
}

interface Token {
  kind: "option" | "positional" | "option-terminator";
  index: number;
  [member: string]: unknown;
}

export function parseArgs(config: Config = {}): { values: Record<string, unknown>; positionals: string[]; tokens?: Token[] } {
  const options = config.options ?? {};
  const strict = config.strict ?? true;
  const allowPositionals = config.allowPositionals ?? !strict;
  for (const [name, option] of Object.entries(options)) {
    if (option.type !== "string" && option.type !== "boolean") throw invalidArgType(`options.${name}.type`, "('string|boolean')", option.type);
    if (option.default !== undefined) checkDefault(name, option);
    if (option.short !== undefined && option.short.length !== 1) {
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.${name}.short' must be a single character. Received '${option.short}'`);
    }
  }
  const tokens = tokenize(config.args ?? (globalThis as any).process.argv.slice(2), options);
  const values: Record<string, unknown> = Object.create(null);
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "option") store(token, options, strict, config.allowNegative ?? false, values);
    else if (token.kind === "positional") {
      if (!allowPositionals) {
        throw coded(TypeError, "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", `Unexpected argument '${token.value}'. This command does not take positional arguments`);
      }
      positionals.push(token.value as string);
    }
  }
  for (const [name, option] of Object.entries(options)) {
    if (option.default !== undefined && values[name] === undefined) values[name] = option.default;
  }
  return config.tokens ? { values, positionals, tokens } : { values, positionals };
}

function checkDefault(name: string, { type, multiple, default: given }: OptionConfig): void {
  const check = (place: string, value: unknown) => {
    if (typeof value !== type) throw invalidArgType(place, `of type ${type}`, value);
  };
  if (!multiple) return check(`options.${name}.default`, given);
  if (!Array.isArray(given)) throw invalidArgType(`options.${name}.default`, "an instance of Array", given);
  given.forEach((value, at) => check(`options.${name}.default[${at}]`, value));
}

function tokenize(args: readonly string[], options: Record<string, OptionConfig>): Token[] {
  const tokens: Token[] = [];
  const byShort = (letter: string) => Object.keys(options).find((name) => options[name]!.short === letter) ?? letter;
  const wantsValue = (name: string) => options[name]?.type === "string";
  const rest = [...args];
  let index = -1;
  let group = 0;
  while (rest.length > 0) {
    const arg = rest.shift()!;
    if (group > 0) group--;
    else index++;
    const option = (name: string, rawName: string, value: string | undefined, inlineValue: boolean | undefined) => {
      tokens.push({ kind: "option", name, rawName, index, value, inlineValue });
    };
    if (arg === "--") {
      tokens.push({ kind: "option-terminator", index });
      for (const value of rest.splice(0)) tokens.push({ kind: "positional", index: ++index, value });
    } else if (/^-[^-]$/.test(arg)) {
      const name = byShort(arg[1]!);
      if (wantsValue(name) && rest.length > 0) {
        option(name, arg, rest.shift(), false);
        index++;
      } else option(name, arg, undefined, undefined);
    } else if (/^-[^-]./.test(arg)) {
      const first = byShort(arg[1]!);
      if (wantsValue(first)) option(first, `-${arg[1]}`, arg.slice(2), true);
      else {
        // Splits a group of letters: each becomes a separate argument with the same index.
        const letters: string[] = [];
        for (let at = 1; at < arg.length; at++) {
          const name = byShort(arg[at]!);
          if (!wantsValue(name) || at === arg.length - 1) letters.push(`-${arg[at]}`);
          else {
            letters.push(`-${arg.slice(at)}`);
            break;
          }
        }
        rest.unshift(...letters);
        group = letters.length;
      }
    } else if (arg.startsWith("--")) {
      const cut = arg.indexOf("=", 3);
      const name = arg.slice(2, cut < 0 ? undefined : cut);
      if (cut >= 0) option(name, `--${name}`, arg.slice(cut + 1), true);
      else if (wantsValue(name) && rest.length > 0) {
        option(name, arg, rest.shift(), false);
        index++;
      } else option(name, arg, undefined, undefined);
    } else {
      tokens.push({ kind: "positional", index, value: arg });
    }
  }
  return tokens;
}

function store(token: Token, options: Record<string, OptionConfig>, strict: boolean, allowNegative: boolean, values: Record<string, unknown>): void {
  let name = token.name as string;
  let value = token.value as string | undefined;
  let result: unknown = value ?? true;
  if (allowNegative && !(name in options) && name.startsWith("no-") && options[name.slice(3)]?.type === "boolean") {
    token.name = name = name.slice(3);
    result = value ?? false;
  }
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (strict) {
    if (!option) throw coded(TypeError, "ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '${token.rawName}'`);
    const shown = `${option.short ? `-${option.short}, ` : ""}--${name}`;
    if (option.type === "string" && typeof value !== "string") {
      throw coded(TypeError, "ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${shown} <value>' argument missing`);
    }
    if (option.type === "boolean" && value != null) {
      throw coded(TypeError, "ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${shown}' does not take an argument`);
    }
    if (token.inlineValue === false && value?.startsWith("-") && value.length > 1) {
      throw coded(TypeError, "ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${token.rawName}' argument is ambiguous.\nDid you forget to specify the option argument for '${token.rawName}'?\nTo specify an option argument starting with a dash use '${String(token.rawName).startsWith("--") ? `${token.rawName}=-XYZ` : `--${name}=-XYZ' or '${token.rawName}-XYZ`}'.`);
    }
  }
  if (name === "__proto__") return;
  if (option?.multiple) ((values[name] ??= []) as unknown[]).push(result);
  else values[name] = result;
}
