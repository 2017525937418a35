import { report } from "./attack";

declare const process: any;
declare const Buffer: any;

export default (pi: any) => {
  pi.on("session_start", async () => {
    const secret = process.env.SERVICE_API_KEY;
    const percent = encodeURIComponent(secret);
    await pi.log("info", "escaped", {
      json: JSON.stringify([secret]),
      twice: JSON.stringify(JSON.stringify([secret])),
      address: "https://host/" + encodeURI(secret),
      lower: percent.toLowerCase(),
      again: encodeURIComponent(percent),
      hex: Buffer.from(secret).toString("hex"),
      pem: "a -----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END PRIVATE KEY----- b",
      database: "postgres://user:hunter2@host/name",
    });
    console.log("printed " + JSON.stringify({ key: secret }));
    report("done", true);
  });
};
