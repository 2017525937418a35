export default (pi: any) => pi.on("session_start", () => pi.sendUserMessage("call write"));
