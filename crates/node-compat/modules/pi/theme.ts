/**
 * `pi:pi/theme`: colours and text styles, with the names of pi's themes.
 *
 * A theme maps names to 24-bit colours; `fg` and `bg` enclose a text in the sequences for a colour and for the default colour.
 * The palettes are specific to PiJS; the names are pi's.
 */

import { state } from "pi:engine";

type Palette = Record<string, string>;

/** Foreground names that share a colour, per theme: `[colour, names]`. */
const DARK: readonly (readonly [string, string])[] = [
  ["e4e4e7", "text userMessageText customMessageText toolTitle"],
  ["8ec07c", "accent success toolDiffAdded mdCode mdListBullet syntaxString borderAccent"],
  ["f07178", "error toolDiffRemoved"],
  ["f0c674", "warning mdHeading bashMode searchMatchText"],
  ["a1a1aa", "muted toolOutput thinkingText mdQuote syntaxComment syntaxPunctuation toolDiffContext scrollbarThumb"],
  ["71717a", "dim borderMuted mdLinkUrl mdCodeBlockBorder mdQuoteBorder mdHr thinkingOff scrollbarTrack"],
  ["7aa2f7", "border mdLink syntaxFunction thinkingMinimal customMessageLabel"],
  ["bb9af7", "syntaxKeyword thinkingMedium thinkingHigh"],
  ["7dcfff", "mdCodeBlock syntaxVariable syntaxType syntaxOperator syntaxNumber thinkingLow"],
  ["ff9e64", "thinkingXhigh thinkingMax"],
];
const LIGHT: readonly (readonly [string, string])[] = [
  ["27272a", "text userMessageText customMessageText toolTitle"],
  ["2e7d32", "accent success toolDiffAdded mdCode mdListBullet syntaxString borderAccent"],
  ["b3261e", "error toolDiffRemoved"],
  ["8a5a00", "warning mdHeading bashMode searchMatchText"],
  ["52525b", "muted toolOutput thinkingText mdQuote syntaxComment syntaxPunctuation toolDiffContext scrollbarThumb"],
  ["a1a1aa", "dim borderMuted mdLinkUrl mdCodeBlockBorder mdQuoteBorder mdHr thinkingOff scrollbarTrack"],
  ["1d4ed8", "border mdLink syntaxFunction thinkingMinimal customMessageLabel"],
  ["6d28d9", "syntaxKeyword thinkingMedium thinkingHigh"],
  ["0e7490", "mdCodeBlock syntaxVariable syntaxType syntaxOperator syntaxNumber thinkingLow"],
  ["c2410c", "thinkingXhigh thinkingMax"],
];
const DARK_BACKGROUNDS: readonly (readonly [string, string])[] = [
  ["3f3f46", "selectedBg"],
  ["5c4b1f", "searchMatchBg"],
  ["2a2a30", "userMessageBg customMessageBg toolPendingBg"],
  ["1f2d22", "toolSuccessBg"],
  ["33201f", "toolErrorBg"],
];
const LIGHT_BACKGROUNDS: readonly (readonly [string, string])[] = [
  ["d4d4d8", "selectedBg"],
  ["fde68a", "searchMatchBg"],
  ["f4f4f5", "userMessageBg customMessageBg toolPendingBg"],
  ["e7f3e8", "toolSuccessBg"],
  ["fbe9e7", "toolErrorBg"],
];

function palette(shared: readonly (readonly [string, string])[]): Palette {
  return Object.fromEntries(shared.flatMap(([colour, names]) => names.split(" ").map((name) => [name, colour])));
}

/** Returns the parameters of a colour's sequence: `38;2;R;G;B` or `48;2;R;G;B`. */
function sequence(kind: 38 | 48, colour: string | number): string {
  if (typeof colour === "number") return `\u001b[${kind};5;${colour}m`;
  if (colour === "") return `\u001b[${kind + 1}m`;
  const hex = colour.startsWith("#") ? colour.slice(1) : colour;
  const part = (at: number) => Number.parseInt(hex.slice(at, at + 2), 16);
  return `\u001b[${kind};2;${part(0)};${part(2)};${part(4)}m`;
}

const wrapper = (on: number, off: number) => (text: string) => `\u001b[${on}m${text}\u001b[${off}m`;

/** pi's `Theme`. */
export class Theme {
  readonly name: string | undefined;
  readonly sourcePath: string | undefined;
  sourceInfo: unknown;
  readonly #foregrounds: Record<string, string | number>;
  readonly #backgrounds: Record<string, string | number>;
  readonly #mode: string;

  constructor(
    foregrounds: Record<string, string | number>,
    backgrounds: Record<string, string | number>,
    mode = "truecolor",
    options: { name?: string; sourcePath?: string; sourceInfo?: unknown } = {},
  ) {
    this.#foregrounds = foregrounds;
    this.#backgrounds = backgrounds;
    this.#mode = mode;
    this.name = options.name;
    this.sourcePath = options.sourcePath;
    this.sourceInfo = options.sourceInfo;
  }

  fg(colour: string, text: string): string {
    return `${this.getFgAnsi(colour)}${text}\u001b[39m`;
  }

  bg(colour: string, text: string): string {
    return `${this.getBgAnsi(colour)}${text}\u001b[49m`;
  }

  bold = wrapper(1, 22);
  italic = wrapper(3, 23);
  underline = wrapper(4, 24);
  inverse = wrapper(7, 27);
  strikethrough = wrapper(9, 29);

  getFgAnsi(colour: string): string {
    const found = this.#foregrounds[colour];
    if (found === undefined) throw new Error(`Unknown theme color: ${colour}`);
    return sequence(38, found);
  }

  getBgAnsi(colour: string): string {
    const found = this.#backgrounds[colour];
    if (found === undefined) throw new Error(`Unknown theme background color: ${colour}`);
    return sequence(48, found);
  }

  getColorMode(): string {
    return this.#mode;
  }

  getThinkingBorderColor(level: string): (text: string) => string {
    const name = `thinking${level.charAt(0).toUpperCase()}${level.slice(1)}`;
    return (text) => this.fg(name in this.#foregrounds ? name : "thinkingOff", text);
  }

  getBashModeBorderColor(): (text: string) => string {
    return (text) => this.fg("bashMode", text);
  }
}

const THEMES: Record<string, Theme> = {
  dark: new Theme(palette(DARK), palette(DARK_BACKGROUNDS), "truecolor", { name: "dark" }),
  light: new Theme(palette(LIGHT), palette(LIGHT_BACKGROUNDS), "truecolor", { name: "light" }),
};

/** Returns a built-in theme in the format of theme files. */
export function themeDocument(name: string): { name: string; colors: Palette } | undefined {
  if (!Object.hasOwn(THEMES, name)) return undefined;
  const [foregrounds, backgrounds] = name === "dark" ? [DARK, DARK_BACKGROUNDS] : [LIGHT, LIGHT_BACKGROUNDS];
  const colours = Object.entries({ ...palette(foregrounds), ...palette(backgrounds) });
  return { name, colors: Object.fromEntries(colours.map(([name, colour]) => [name, `#${colour}`])) };
}

/** A theme file as read by the host: colours by name, with variables resolved. */
interface ThemeFile {
  name: string;
  path: string;
  foregrounds: Record<string, string | number>;
  backgrounds: Record<string, string | number>;
}

/** Themes from files, by path. */
const made = new Map<string, { file: ThemeFile; theme: Theme }>();

function ofFile(file: ThemeFile): Theme {
  const known = made.get(file.path);
  if (known && known.file === file) return known.theme;
  const theme = new Theme(file.foregrounds, file.backgrounds, "truecolor", { name: file.name, sourcePath: file.path });
  made.set(file.path, { file, theme });
  return theme;
}

function files(): ThemeFile[] {
  return state().set.themes ?? [];
}

/** Returns the theme with a name. */
export function themeNamed(name: string): Theme | undefined {
  if (Object.hasOwn(THEMES, name)) return THEMES[name];
  const file = files().find((file) => file.name === name);
  return file && ofFile(file);
}

/** Returns all themes: first the built-in ones, then those from files. */
export function themes(): Theme[] {
  return [...Object.values(THEMES), ...files().filter(({ name }) => !Object.hasOwn(THEMES, name)).map(ofFile)];
}

let current = THEMES["dark"]!;
/** Name of the theme that the host reported last; an extension in another realm may have selected it. */
let named: unknown;

/** Selects the theme for drawing. */
export function useTheme(theme: Theme): void {
  named = state().set.theme;
  current = theme;
}

/** Returns the theme for drawing. */
export function currentTheme(): Theme {
  const wanted = state().set.theme;
  if (wanted !== named) {
    named = wanted;
    current = themeNamed(String(wanted)) ?? current;
  }
  return current;
}

/** Reads the current theme at each access, so that a component that keeps this object follows a change. */
export const theme: Theme = new Proxy({} as Theme, {
  get(_, name) {
    const theme = currentTheme();
    const value = Reflect.get(theme, name, theme);
    return typeof value === "function" ? value.bind(theme) : value;
  },
  has: (_, name) => Reflect.has(currentTheme(), name),
});

// Components of the real packages read the theme under these symbols.
for (const scope of ["@earendil-works", "@mariozechner"]) {
  Object.defineProperty(globalThis, Symbol.for(`${scope}/pi-coding-agent:theme`), {
    value: theme,
    writable: true,
    configurable: true,
  });
}
