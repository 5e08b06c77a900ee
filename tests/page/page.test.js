// House rules of the page's files, and that they fit together: nothing here opens a browser.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const folder = new URL("../../src/cli/page/web/", import.meta.url);
const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(new URL(name, folder), "utf8")]));
const scripts = Object.entries(files).filter(([name]) => name.endsWith(".js"));
const html = files["index.html"];

test("files are short and say first what they are for", () => {
  const openings = { js: /^\/\/ [A-Z“"]/, css: /^\/\* [A-Z]/, html: /^<!DOCTYPE html>\n<!-- [A-Z]/ };
  for (const [name, text] of Object.entries(files)) {
    assert.ok(text.split("\n").length <= 301, `${name} is too long`);
    assert.match(text, openings[name.split(".").pop()], name);
  }
});

test("nothing inline, nothing from elsewhere: the server's policy forbids both", () => {
  assert.doesNotMatch(html, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc="\/[\w-]+\.js")/);
  assert.doesNotMatch(html.replace(/xmlns='[^']*'/g, ""), /https?:/);
  for (const [name, text] of Object.entries(files)) {
    assert.doesNotMatch(text.replace("http://www.w3.org/2000/svg", ""), /https?:\/\/|\beval\(|new Function|innerHTML|setAttribute\("style"/, name);
  }
});

test("what is linked is there", () => {
  for (const [, name] of html.matchAll(/(?:href|src)="\/([\w.-]+)"/g)) assert.ok(files[name], name);
  for (const [name, text] of scripts) {
    for (const [, imported] of text.matchAll(/from "\.\/([\w.-]+)"/g)) assert.ok(files[imported], `${imported} of ${name}`);
  }
});

test("imports are lines of one form, which a report turns into names of its own", () => {
  for (const [name, text] of scripts) {
    const lines = text.split("\n").filter((line) => /^\s*import\b|\bimport\s*\(|^\s*(export\b.*|\} )from\s*["']/.test(line));
    for (const line of lines) assert.match(line, /^import \{ [^}]+ \} from "\.\/[\w-]+\.js";$/, name);
    assert.doesNotMatch(text, /<\/script|<!--/i, name);
  }
});

test("nothing in the page calls it explore before it knows that it is: a report is none", () => {
  assert.doesNotMatch(html.replace(/<!--.*?-->/gs, ""), /explore/);
});

test("every name that is imported is exported, and used", () => {
  for (const [name, text] of scripts) {
    for (const [line, names, from] of text.matchAll(/import \{([^}]+)\} from "\.\/([\w.-]+)";/g)) {
      for (const one of names.split(",").map((part) => part.trim())) {
        const [outer, inner = outer] = one.split(" as ");
        assert.match(files[from], new RegExp(`export (async )?(function|const|class) ${outer}\\b`), `${outer} of ${from}`);
        assert.match(text.replace(line, ""), new RegExp(`\\b${inner}\\b`), `${name} does not use ${inner}`);
      }
    }
  }
});

test("every element that a script asks for is in the page, and no id twice", () => {
  const ids = [...html.matchAll(/\sid="([\w-]+)"/g)].map(([, id]) => id);
  assert.equal(new Set(ids).size, ids.length);
  for (const [name, text] of scripts) {
    for (const [, id] of text.matchAll(/byId\("([\w-]+)"\)/g)) assert.ok(ids.includes(id), `#${id} of ${name}`);
  }
});

test("every field and button has a name", () => {
  for (const [tag, , attributes, inside] of html.matchAll(/<(button|select|input)\b([^>]*)>([^<]*)/g)) {
    const id = /\sid="([\w-]+)"/.exec(attributes)?.[1];
    const isNamed = /aria-label=/.test(attributes) || inside.trim() !== "" || html.includes(`for="${id}"`) || new RegExp(`<label[^>]*>[^<]*<(select|input) id="${id}"`).test(html);
    assert.ok(isNamed, tag);
  }
});

test("colours that scripts draw with are in both themes", () => {
  const css = files["style.css"];
  const themes = [/:root \{([^}]+)\}/, /:root:not\(\[data-theme="light"\]\) \{([^}]+)\}/, /:root\[data-theme="dark"\] \{([^}]+)\}/].map((pattern) => pattern.exec(css)[1]);
  const names = /const names = \[([^\]]+)\]/.exec(files["dom.js"])[1].match(/[\w-]+/g);
  for (const name of names) for (const theme of themes) assert.match(theme, new RegExp(`--${name}:`), name);
  assert.equal(themes[1].replace(/\s+/g, " "), themes[2].replace(/\s+/g, " "), "dark by the system and dark by choice are one");
});
