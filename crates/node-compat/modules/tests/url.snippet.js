import url, { URL as U, fileURLToPath, pathToFileURL } from "node:url";
import querystring from "node:querystring";

const attempt = (body) => { try { return body(); } catch (error) { return `${error.name} ${error.code}: ${error.message}`; } };
for (const input of ["http://user:p%20w@Example.com:8080/a/../b?x=1&y=2#frag", "https://example.com:443", "file:///C:/x y", "data:text/plain,hi", "http://[::1]:3000/"]) console.log(new URL(input));
console.log(new URL("../c?d#e", "http://h/a/b/x").href, attempt(() => new URL("nope")), URL.canParse("x"), URL.canParse("x", "http://a"), U === URL);
const u = new URL("http://a.b/c"); u.port = "81"; u.pathname = "/x y"; u.search = "q=é"; u.hash = "h"; u.host = "z.y"; u.protocol = "https"; u.username = "me"; console.log(u.href, String(u), JSON.stringify({ u }));
u.searchParams.append("k", "v w&"); u.searchParams.set("q", "1"); console.log(u.href, u.searchParams.get("k"), u.searchParams.has("zz"), [...u.searchParams]); u.search = ""; console.log(u.href, u.searchParams.size);
const p = new URLSearchParams("?a=1&b=2&a=3&c&d=%zz&e=%E2%82%AC+x"); console.log(p, p.getAll("a"), p.toString(), p.get("e"), p.size); p.delete("a", "1"); p.sort(); console.log(p.toString(), [...p.keys()]);
console.log(new URLSearchParams({ x: "1", y: "a b" }).toString(), new URLSearchParams([["a", "1"], ["a", "2"]]).toString(), new URLSearchParams("").toString(), new URLSearchParams("a=b=c&=x&&").toString(), attempt(() => new URLSearchParams([["a"]])), new URLSearchParams());
console.log(fileURLToPath("file:///a%20b/c"), pathToFileURL("/a b/#c?d%").href, pathToFileURL("/x/").href, attempt(() => fileURLToPath("http://x")), attempt(() => fileURLToPath("file:///a%2Fb")), attempt(() => fileURLToPath("file://host/x")), fileURLToPath(new URL("file:///é")));
for (const input of ["http://user:pass@Host.com:80/p/a?q=1&r=2#h", "/just/path?x", "mailto:a@b.c", "//host/p", "http://h"]) { const parsed = url.parse(input); console.log(parsed.protocol, parsed.auth, parsed.host, parsed.hostname, parsed.port, parsed.pathname, parsed.search, parsed.query, parsed.path, parsed.hash, parsed.href, parsed.slashes); }
console.log(url.resolve("/one/two/three", "four"), url.resolve("http://example.com/", "/one"), url.resolve("http://example.com/one", "/two"), url.format({ protocol: "http", host: "h", pathname: "p", query: { a: 1, b: [2, 3] } }), url.format(new URL("http://a:b@c/d?e#f"), { auth: false, fragment: false }), url.parse("?a=1&a=2", true).query.a);
console.log(querystring.stringify({ a: 1, b: ["x", "y z"], c: "", d: true, e: null, f: NaN }), querystring.parse("a=1&b=x&b=y%20z&c&=&d=%zz+q"), querystring.escape("a b&é"), querystring.unescape("%41%zz"), querystring.stringify({ a: 1, b: 2 }, ";", ":"), querystring.parse("a:1;b:2", ";", ":"));
