globalThis.ran = true;
export const value = 1;
