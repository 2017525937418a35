import path from "node:path";

const samples = ["", ".", "..", "/", "//", "a", "a/", "/a", "/a/b/", "a/b.txt", "./a/../b", "/../a", "a//b///c", ".bashrc", "a/.bashrc", "x.tar.gz", "a.", "..a", "a/..", "../../x", "/a/b/../../..", "C:\\x\\y.txt", "C:", "C:/a/../..", "\\\\srv\\share\\d\\f.e", "\\a\\b", "a\\b\\..\\c", "C:a\\b", "\\\\srv\\share", "//srv/share/x/../.."];
for (const flavour of ["posix", "win32"]) {
  const p = path[flavour];
  for (const sample of samples) {
    console.log(flavour, JSON.stringify(sample), JSON.stringify([p.normalize(sample), p.dirname(sample), p.basename(sample), p.extname(sample), p.isAbsolute(sample)]));
    console.log(JSON.stringify(p.parse(sample)));
  }
}
console.log(path.join("a", "..", "..", "b"), path.join(""), path.join("/a", "/b"), path.join("a/", "./b", ""));
console.log(path.resolve("/a/b", "../c", "./d"), path.resolve("/a", "/b", "c"));
console.log(path.relative("/a/b/c", "/a/d"), path.relative("/a", "/a"), path.relative("/", "/x"), path.relative("/a/b", "/"));
console.log(path.win32.relative("C:\\a\\b", "c:\\A\\d"), path.win32.relative("C:\\a", "D:\\b"), path.win32.join("C:", "a", "..", "b"), path.win32.join("\\\\srv", "share"), path.win32.resolve("C:\\a", "..\\b"), path.win32.resolve("C:\\a", "D:\\x", "y"));
console.log(path.basename("a/b.txt", ".txt"), path.basename("a/.txt", ".txt"), path.basename("b.txt", "b.txt"));
console.log(path.format({ dir: "/x", base: "y" }), path.format({ root: "/", name: "n", ext: "e" }), path.format({ root: "/", dir: "/", base: "f" }));
console.log(path.sep, path.delimiter, path.win32.sep, path.win32.delimiter, path.posix === path, path.posix.win32 === path.win32);
try {
  path.join("a", 1);
} catch (error) {
  console.log(error.name, error.code, error.message);
}
{
  const patterns = ["*", "*.js", "**/*.js", "src/**", "src/**/*.ts", "a/*/c", "a?c", "[abc]x", "[!abc]x", "{a,b}/c.js", "*.{js,ts}", "a/**/b", "**/.*", ".*", "!(a).js", "@(a|b).js", "+(ab).js", "a/b", "./a/b", "{1..3}.txt", "a{b", "a[b", "\\*", "**/b/**", "a/**", "?(x)y", "src/!(*.d).ts"];
  const paths = ["a.js", ".a.js", "src", "src/a.ts", "src/x/y.ts", "src/.h/y.ts", "a/b/c", "a/c", "abc", "ax", "dx", "a/c.js", "x.ts", "a/b", "a/x/y/b", ".git", "x/.git", "b.js", "abab.js", "2.txt", "a{b", "a[b", "*", "x/b/y", "a", "y", "xy", "src/z.d.ts", "./a/b", ""];
  for (const pattern of patterns) console.log(pattern, paths.filter((each) => path.posix.matchesGlob(each, pattern)).join(" "));
}
