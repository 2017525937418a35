/** The web globals that the dialect uses, which `pi:web` defines. */
declare const console: Record<"error" | "warn" | "log", (...values: unknown[]) => void>;
declare function setTimeout(callback: () => void, ms: number): number;
declare function clearTimeout(timer: number | undefined): void;
declare function encodeURIComponent(text: string): string;
declare function decodeURIComponent(text: string): string;
interface AbortSignal { readonly aborted: boolean }
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}
