const { callSync } = await import("pi:" + "hostcall");
export const value = typeof callSync;
