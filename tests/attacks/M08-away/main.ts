// Its commands are answered by itself; one takes more than there is room for.
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
