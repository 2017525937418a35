/**
 * Handlers of `stream_text` as people write them, over the same rules and the same reply. Each breaks off at the first rule that
 * matches; the reply breaks none. Node runs this file as it is (`node.mjs`), an extension imports it.
 */

const RULES = 20;
const names = Array.from({ length: RULES }, (_, rule) => `forbidden_${rule}`);
const rules = names.map((name) => ({ name, re: new RegExp(`\\b${name}\\s*\\(`), each: new RegExp(`\\b${name}\\s*\\(`, "g") }));
const byName = new Map(rules.map((rule) => [rule.name, rule]));
const stop = (rule) => ({ abort: true, retry: { content: rule.name } });

export const shapes = {
  "lines, some": (event) => {
    for (const rule of rules) {
      const lines = event.accumulated.split("\n");
      if (lines.some((line) => rule.re.test(line))) return stop(rule);
    }
  },
  "lines, for-of": (event) => {
    for (const rule of rules) {
      for (const line of event.accumulated.split("\n")) {
        if (rule.re.test(line)) return stop(rule);
      }
    }
  },
  "lines, for-of, then rules": (event) => {
    for (const line of event.accumulated.split("\n")) {
      for (const rule of rules) {
        if (rule.re.test(line)) return stop(rule);
      }
    }
  },
  "accumulated, test": (event) => {
    for (const rule of rules) {
      if (rule.re.test(event.accumulated)) return stop(rule);
    }
  },
  "accumulated, exec": (event) => {
    for (const rule of rules) {
      if (rule.re.exec(event.accumulated)) return stop(rule);
    }
  },
  "accumulated, match": (event) => {
    for (const rule of rules) {
      if (event.accumulated.match(rule.re)) return stop(rule);
    }
  },
  "accumulated, search": (event) => {
    for (const rule of rules) {
      if (event.accumulated.search(rule.re) >= 0) return stop(rule);
    }
  },
  "accumulated, matchAll": (event) => {
    for (const rule of rules) {
      for (const match of event.accumulated.matchAll(rule.each)) return stop(rule, match);
    }
  },
  "accumulated, includes": (event) => {
    for (const rule of rules) {
      if (event.accumulated.includes(rule.name)) return stop(rule);
    }
  },
  "accumulated, rules in a Map": (event) => {
    for (const rule of byName.values()) {
      if (rule.re.test(event.accumulated)) return stop(rule);
    }
  },
  // The work of the next handler, without its match.
  "chunk, no question": (event) => {
    for (const rule of rules) {
      if (rule.re === event.chunk) return stop(rule);
    }
    if (event.chunk.startsWith("forbidden")) return stop(rules[0]);
  },
  "chunk, test": (event) => {
    for (const rule of rules) {
      if (rule.re.test(event.chunk)) return stop(rule);
    }
  },
};
