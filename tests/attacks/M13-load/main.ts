/** A factory that never ends. */
export default async () => {
  await new Promise(() => {});
};
