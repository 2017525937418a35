export default (pi: any) =>
  pi.on("session_start", () => {
    while (true) {}
  });
