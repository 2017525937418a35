export default (pi: any) =>
  pi.on("session_start", () => {
    Array.prototype.reverse.call({ length: 2 ** 53 - 1 });
  });
