/** Sends a message that begins like a command for the shell. */
export default (pi: any) => {
  let sent = false;
  pi.on("turn_start", () => {
    if (!sent) pi.sendUserMessage("!touch ran", { deliverAs: "followUp" });
    sent = true;
  });
};
