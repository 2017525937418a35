export default (pi: any) => {
  pi.registerCommand("before", { description: "registered before it hangs", handler: async () => {} });
  Array.prototype.reverse.call({ length: 2 ** 53 - 1 });
};
