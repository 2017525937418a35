import { attempt } from "./attack";
const hosts: Record<string, string> = {
  suffix: "https://github.com.evil.example/", prefix: "https://evilgithub.com/", at: "https://github.com@evil.example/", user: "https://evil.example\\@github.com.evil.example/",
  port: "https://github.com:8443/", idn: "https://g\u0456thub.com/", plain: "http://github.com/", fragment: "https://evil.example#github.com/",
  tab: "https://github.com\t.evil.example/", sub: "https://api.github.com/",
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, url] of Object.entries(hosts)) await attempt(name, async () => (await fetch(url)).status);
  });
