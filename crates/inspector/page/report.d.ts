/** The data of the page, as `src/report.rs` writes it. Times are microseconds since the start of the session. */
interface Report {
  pi: string;
  started_ms: number;
  policy: string;
  complete: boolean;
  end: number;
  ticks: number;
  realms: number;
  lanes: Lane[];
  rows: Row[];
  chunks: Chunk[];
  verdicts: Verdict[];
  has_ledger: boolean;
}

interface Lane {
  /** Number of the realm; 0 for the agent. */
  realm: number;
  extension: string;
}

interface Row {
  lane: number;
  kind: "turn" | "call" | "pending" | "model" | "tool" | "act";
  name: string;
  from: number;
  to: number;
  tick: number;
  capability?: string;
  failed?: boolean;
  denied?: boolean;
  decision?: { allowed: boolean; rule: string; subject: string | null };
  more: Record<string, unknown>;
}

interface Chunk {
  at: number;
  tick: number;
  attempt: number;
  source: "text" | "thinking" | "tool";
  stream: number;
  tool?: string;
  text: string;
}

interface Verdict {
  at: number;
  tick: number;
  lane: number;
  attempt: number;
  retry: string | null;
  role: string | null;
}
