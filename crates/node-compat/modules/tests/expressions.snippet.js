// Characters that the flag `v` reserves inside a class are literal outside it.
const attempt = (body) => { try { return body(); } catch (error) { return `${error.name}: ${error.message}`; } };
const signs = [..."&-!#%,:;<=>@`~/\"'_"];
console.log(signs.map((sign) => attempt(() => new RegExp(`a${sign}b`, "v").test(`a${sign}b`))).join(" "));
console.log(signs.filter((sign) => sign !== "-" && sign !== "/").map((sign) => attempt(() => RegExp(`${sign}${sign}${sign}`, "v").test(sign.repeat(3)))).join(" "));
console.log(new RegExp("a/b", "v").source, new RegExp("[[a-z]--[b]]-c", "v").test("a-c"), new RegExp("[\\p{L}--[a-z]]-[\\-\\]]", "v").test("A-]"));
console.log(attempt(() => new RegExp("[a--]", "v")), attempt(() => new RegExp("a\\-b", "v")), attempt(() => new RegExp("(a-b", "v")));
console.log("a-b".replace(new RegExp("(?<first>\\p{L})-(?<second>\\p{L})", "gv"), "$<second>-$<first>"), "1-2-3".split(new RegExp("-", "v")));
