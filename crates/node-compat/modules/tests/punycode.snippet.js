import punycode from "node:punycode";

const tried = (work) => {
  try {
    return work();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};
const texts = ["", "a", "-", "--", "ASCII-only", "bücher", "mañana", "☃-⌘", "ليهمابتكلموشعربي؟", "他们为什么不说中文", "Pročprostěnemluvíčesky", "3年B組金八先生", "💩", "a💩b💩", "\u0000\u007f\u0080", "\u{10ffff}", "MajiでKoiする5秒前"];
for (const text of texts) console.log(JSON.stringify([text, punycode.encode(text), punycode.decode(punycode.encode(text)) === text]));
for (const text of ["bcher-kva", "-", "a-", "bücher", "ihqwctvzc91f659drss3x8bo0yb", "99999999", "a b", "xn", "abc-99999999999", "A-Z", "BCHER-KVA"]) console.log(JSON.stringify([text, tried(() => punycode.decode(text))]));
for (const name of ["example.com", "mañana.com", "джумла@джpумлатест.bрфa", "日本語。ｊｐ", "a.b｡c．d", "xn--maana-pta.com", "XN--maana-pta.com", "user@xn--maana-pta.com", "", "."]) console.log(JSON.stringify([name, punycode.toASCII(name), tried(() => punycode.toUnicode(name))]));
console.log(punycode.ucs2.decode("a\ud83d\ude00\ud800b"), punycode.ucs2.encode([0x61, 0x1f600, 0xd800]).length, punycode.version, Object.keys(punycode).sort().join(" "));
