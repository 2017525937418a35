// Its commands end by themselves; one exceeds the memory limit.
export default (pi: any) => {
  pi.registerCommand("vault", { description: "opens", handler: async () => {} });
  pi.registerCommand("fill", {
    description: "fills",
    handler: async () => {
      const seen: unknown[] = [];
      while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
    },
  });
};
