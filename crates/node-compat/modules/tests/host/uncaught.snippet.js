// Listeners for uncaught errors. The host is notified as well, so this snippet runs alone.
const seen = [];
const rejected = (reason, promise) => seen.push(["rejection", reason.message, promise instanceof Promise]);
process.on("unhandledRejection", rejected);
Promise.reject(new Error("late"));
await new Promise((resolve) => setTimeout(resolve, 5));
process.off("unhandledRejection", rejected);
const monitor = (error, origin) => seen.push(["monitor", error.message, origin]);
const thrown = (error, origin) => seen.push(["exception", error.message, origin]);
process.on("uncaughtExceptionMonitor", monitor).on("uncaughtException", thrown);
setTimeout(() => { throw new Error("thrown"); }, 1);
await new Promise((resolve) => setTimeout(resolve, 10));
Promise.reject(new Error("nobody"));
await new Promise((resolve) => setTimeout(resolve, 5));
process.off("uncaughtExceptionMonitor", monitor).off("uncaughtException", thrown);
log(seen);
